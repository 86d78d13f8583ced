# Headers that are compiled once, for many targets:
#   dedloc_base_pch     of the standard library and fmt: modules without coroutines
#   dedloc_pch          the same and Asio's: modules with coroutines
#   dedloc_control_pch  the same with less optimization: modules that decide and hardly compute
#   dedloc_tool_pch     the same and nlohmann-json's: cli and dedloc-lab
#   dedloc_test_pch     Asio's, GoogleTest's and nlohmann-json's; tests are compiled without
#                       optimization, as they are compiled far more often than they run
#   dedloc_torch_pch    Asio's and libtorch's (in torch_bridge, where libtorch is found)
# The last four do their work in libraries and other modules: less optimization makes a build
# a tenth shorter, and nothing slower that could be measured. (None at all in tool_pch would make
# `dedloc-lab simulate` three times slower: the linker then takes its copies of inline functions for all.)

# Asio's functions that are no templates are compiled here, once, and not in every file that uses them.
# Whether it allocates with aligned_alloc is said here, as Asio's own answer depends on which headers
# came before its own: two files could allocate and free in different ways.
add_library(dedloc_asio STATIC ${PROJECT_SOURCE_DIR}/src/dedloc/runtime/asio_code.cpp)
target_compile_definitions(
    dedloc_asio PUBLIC ASIO_STANDALONE ASIO_NO_DEPRECATED ASIO_SEPARATE_COMPILATION
                       ASIO_HAS_STD_ALIGNED_ALLOC=1)
target_link_libraries(dedloc_asio PUBLIC dedloc_settings)
dedloc_installed(dedloc_asio asio)

function(dedloc_precompiled_header NAME MODULE)
    add_library(${NAME} STATIC ${PROJECT_SOURCE_DIR}/src/dedloc/${MODULE}/pch.cpp)
    target_link_libraries(${NAME} PUBLIC dedloc_settings fmt::fmt)
    if(MODULE STREQUAL "runtime")
        target_link_libraries(${NAME} PUBLIC dedloc_asio)
    endif()
    if(NOT NAME STREQUAL "dedloc_test_pch")
        dedloc_installed(${NAME} ${NAME})  # modules link it
    endif()
    target_precompile_headers(${NAME} PRIVATE ${PROJECT_SOURCE_DIR}/src/dedloc/${MODULE}/pch.h ${ARGN})
endfunction()
dedloc_precompiled_header(dedloc_base_pch base)
dedloc_precompiled_header(dedloc_pch runtime)
dedloc_precompiled_header(dedloc_control_pch runtime)
target_compile_options(dedloc_control_pch PUBLIC $<$<CONFIG:Release>:-O1>)
find_package(nlohmann_json REQUIRED)
dedloc_precompiled_header(dedloc_tool_pch runtime <nlohmann/json.hpp>)
target_link_libraries(dedloc_tool_pch PUBLIC nlohmann_json::nlohmann_json)
target_compile_options(dedloc_tool_pch PUBLIC $<$<CONFIG:Release>:-O1>)
if(DEDLOC_TESTS)
    dedloc_precompiled_header(dedloc_test_pch runtime <gtest/gtest.h> <nlohmann/json.hpp>)
    target_link_libraries(dedloc_test_pch PUBLIC GTest::gtest nlohmann_json::nlohmann_json)
    target_compile_options(dedloc_test_pch PUBLIC -O0)
endif()

# dedloc_precompiled(TARGET PCH): `TARGET` uses the header of `PCH`.
function(dedloc_precompiled TARGET PCH)
    target_precompile_headers(${TARGET} REUSE_FROM ${PCH})
    target_link_libraries(${TARGET} PRIVATE ${PCH})
    get_target_property(type ${TARGET} TYPE)
    if(type STREQUAL "EXECUTABLE")
        # The header was compiled with -fPIC; an executable's -fPIE would not match it.
        set_target_properties(${TARGET} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
        target_compile_options(${TARGET} PRIVATE -fPIC)
    endif()
endfunction()
