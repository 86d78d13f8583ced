# Writes OUTPUT, a source that tells the commit of SOURCE: at each build, by cmake -P, and only when it
# has changed. COMMIT: what it is where there is no git, as in an archive of the sources.
if(NOT COMMIT)
    execute_process(COMMAND git -C ${SOURCE} rev-parse --short=12 HEAD OUTPUT_VARIABLE COMMIT
                    OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    if(failed)
        set(COMMIT "unknown")
    else()
        execute_process(COMMAND git -C ${SOURCE} diff-index --quiet HEAD -- RESULT_VARIABLE changed
                        ERROR_QUIET)
        if(changed)
            string(APPEND COMMIT " and changes")
        endif()
    endif()
endif()
string(CONCAT text "extern const char* const dedloc_source_commit;\n"
              "const char* const dedloc_source_commit = \"${COMMIT}\";\n")
if(EXISTS ${OUTPUT})
    file(READ ${OUTPUT} before)
endif()
if(NOT text STREQUAL "${before}")
    file(WRITE ${OUTPUT} "${text}")
endif()
