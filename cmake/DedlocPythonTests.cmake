# dedloc_python_tests(LABEL BASE [properties…]): one ctest LABEL.<name> for every method test_<name>
# of the classes that derive from BASE in the current folder's test_*.py, so that each has its own
# time limit. The program is in $DEDLOC; exit status 77: skipped.
function(dedloc_python_tests LABEL BASE)
    file(GLOB files CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/test_*.py)
    foreach(file IN LISTS files)
        file(STRINGS ${file} lines REGEX "^class [A-Za-z]+\\(${BASE}\\)|^    def test_[a-z_]+")
        foreach(line IN LISTS lines)
            if(line MATCHES "^class ([A-Za-z]+)")
                set(class ${CMAKE_MATCH_1})
                continue()
            endif()
            string(REGEX MATCH "test_([a-z_]+)" method ${line})
            set(name ${LABEL}.${CMAKE_MATCH_1})
            add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} ${file} ${class}.${method})
            set_tests_properties(
                ${name}
                PROPERTIES LABELS ${LABEL} SKIP_RETURN_CODE 77 ${ARGN}
                           ENVIRONMENT "DEDLOC=$<TARGET_FILE:dedloc>;PYTHONDONTWRITEBYTECODE=1")
        endforeach()
        set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    endforeach()
endfunction()
