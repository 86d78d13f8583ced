# dedloc_module(NAME [MODULES other modules…] [LIBRARIES packages…] [COROUTINES]
#             [PRECOMPILED header])
#
# One folder = one module = one target dedloc_NAME. Sources are found by suffix:
#   *_test.cpp   GoogleTest, one executable a module: bin/dedloc_NAME_test
#   *_fuzz.cpp   libFuzzer, one executable a file (DEDLOC_FUZZ); without it a replay of the corpus
#   *_bench.cpp  Google Benchmark, one executable a module (DEDLOC_BENCH)
#   other *.cpp  the library
# COROUTINES: has coroutines, and uses Asio's precompiled header if PRECOMPILED names no other one of
#   DedlocPrecompiled.cmake; without, base's.
# TEST_MODULES: modules that only the tests use (sim).
# Sources are compiled in batches (dedloc_batches): half the time of a clean build.
# LIBRARY_ONLY: a second library of the same folder; neither its tests nor what is installed.
# EXCLUDE: stems of files that this build leaves out (flat_module: flat_module.cpp and its tests).
function(dedloc_module NAME)
    cmake_parse_arguments(MODULE "COROUTINES;LIBRARY_ONLY" "PRECOMPILED" "MODULES;LIBRARIES;TEST_MODULES;TEST_LIBRARIES;EXCLUDE" ${ARGN})
    file(GLOB all CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cpp)
    foreach(stem IN LISTS MODULE_EXCLUDE)
        list(FILTER all EXCLUDE REGEX "/${stem}(_test|_fuzz|_bench)?\\.cpp$")
    endforeach()
    set(tests ${all})
    set(fuzzers ${all})
    set(benches ${all})
    set(sources ${all})
    list(FILTER tests INCLUDE REGEX "_test\\.cpp$")
    list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cpp$")
    list(FILTER benches INCLUDE REGEX "_bench\\.cpp$")
    list(FILTER sources EXCLUDE REGEX "_(test|fuzz|bench)\\.cpp$")
    list(FILTER sources EXCLUDE REGEX "main\\.cpp$")

    if(sources)
        add_library(dedloc_${NAME} STATIC ${sources})
        dedloc_batches(dedloc_${NAME})
        set(scope PUBLIC)
        if(MODULE_PRECOMPILED)
            dedloc_precompiled(dedloc_${NAME} ${MODULE_PRECOMPILED})
        elseif(MODULE_COROUTINES)
            dedloc_precompiled(dedloc_${NAME} dedloc_pch)
        else()
            dedloc_precompiled(dedloc_${NAME} dedloc_base_pch)
        endif()
    else()
        add_library(dedloc_${NAME} INTERFACE)
        set(scope INTERFACE)
    endif()
    list(TRANSFORM MODULE_MODULES PREPEND dedloc_ OUTPUT_VARIABLE modules)
    target_link_libraries(dedloc_${NAME} ${scope} dedloc_settings ${modules} ${MODULE_LIBRARIES})
    if(MODULE_COROUTINES)
        target_link_libraries(dedloc_${NAME} ${scope} dedloc_asio)
    endif()

    if(MODULE_LIBRARY_ONLY)
        return()
    endif()

    if(CMAKE_CURRENT_SOURCE_DIR MATCHES "^${PROJECT_SOURCE_DIR}/src/")
        dedloc_installed(dedloc_${NAME} ${NAME})
    endif()

    if(DEDLOC_TESTS AND tests)
        add_executable(dedloc_${NAME}_test ${tests})
        dedloc_batches(dedloc_${NAME}_test)
        list(TRANSFORM MODULE_TEST_MODULES PREPEND dedloc_ OUTPUT_VARIABLE test_modules)
        target_link_libraries(
            dedloc_${NAME}_test PRIVATE dedloc_${NAME} ${test_modules} ${MODULE_TEST_LIBRARIES}
                                        GTest::gtest_main)
        if(MODULE_PRECOMPILED STREQUAL "dedloc_torch_pch")
            dedloc_precompiled(dedloc_${NAME}_test dedloc_torch_pch)
        else()
            dedloc_precompiled(dedloc_${NAME}_test dedloc_test_pch)
        endif()
        target_compile_definitions(
            dedloc_${NAME}_test PRIVATE DEDLOC_TEST_DATA="${PROJECT_SOURCE_DIR}/tests")
        gtest_discover_tests(
            dedloc_${NAME}_test TEST_PREFIX "${NAME}." DISCOVERY_MODE PRE_TEST NO_PRETTY_VALUES
            PROPERTIES TIMEOUT 300 LABELS "unit;${NAME}")
    endif()
    foreach(fuzzer IN LISTS fuzzers)
        dedloc_fuzzer(${NAME} ${fuzzer})
    endforeach()
    if(DEDLOC_BENCH AND benches)
        add_executable(dedloc_${NAME}_bench ${benches})
        target_link_libraries(
            dedloc_${NAME}_bench PRIVATE dedloc_${NAME} benchmark::benchmark_main)
    endif()
endfunction()

# A fuzz target defines LLVMFuzzerTestOneInput. With DEDLOC_FUZZ it is a libFuzzer program; in
# every other build tests/fuzz/replay_main.cpp feeds it the corpus once, as a ctest.
function(dedloc_fuzzer MODULE FILE)
    get_filename_component(stem ${FILE} NAME_WE)
    set(target fuzz_${MODULE}_${stem})
    if(DEDLOC_FUZZ)
        add_executable(${target} ${FILE})
        target_compile_options(${target} PRIVATE -fsanitize=fuzzer)
        target_link_options(${target} PRIVATE -fsanitize=fuzzer)
        target_link_libraries(${target} PRIVATE dedloc_${MODULE})
    elseif(DEDLOC_TESTS)
        if(NOT TARGET dedloc_replay)
            add_library(dedloc_replay OBJECT ${PROJECT_SOURCE_DIR}/tests/fuzz/replay_main.cpp)
            target_link_libraries(dedloc_replay PUBLIC dedloc_settings)
        endif()
        add_executable(${target} ${FILE})
        target_link_libraries(${target} PRIVATE dedloc_replay dedloc_${MODULE})
        dedloc_precompiled(${target} dedloc_test_pch)
        add_test(NAME fuzz.${MODULE}.${stem} COMMAND ${target} ${PROJECT_SOURCE_DIR}/tests/corpus/${stem})
        set_tests_properties(fuzz.${MODULE}.${stem} PROPERTIES LABELS "fuzz;${MODULE}" TIMEOUT 120)
    endif()
endfunction()
