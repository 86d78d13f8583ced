# dedloc_uses_httplib(MODULE SOURCE…): sources of a module, or of its test, that include cpp-httplib.
#
# Debian's package has a library that was made with the macros below; elsewhere the header is all of
# it. The header is large, and no other source may get its macros: such a source is compiled alone.
function(dedloc_uses_httplib MODULE)
    find_path(DEDLOC_HTTPLIB_INCLUDE httplib.h REQUIRED)
    find_library(DEDLOC_HTTPLIB cpp-httplib)
    set(macros)
    if(DEDLOC_HTTPLIB)
        find_package(OpenSSL 3.0 REQUIRED)
        set(macros CPPHTTPLIB_OPENSSL_SUPPORT CPPHTTPLIB_ZLIB_SUPPORT CPPHTTPLIB_BROTLI_SUPPORT)
        target_link_libraries(dedloc_${MODULE} PUBLIC ${DEDLOC_HTTPLIB} OpenSSL::SSL)
    endif()
    set_source_files_properties(
        ${ARGN} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON SKIP_PRECOMPILE_HEADERS ON
                           COMPILE_DEFINITIONS "${macros}")
endfunction()
