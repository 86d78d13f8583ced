# One set of compiler settings for every module. Numbers must not depend on the machine, so no
# -march=native and no contraction of a*b+c: promise 1 of the design.
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# A rented machine of 1 or 2 GiB, on which a relay is built: slower there, and in less memory.
# A container may be smaller than its machine.
include(DedlocMemory)
dedloc_memory(dedloc_memory_mib /sys/fs/cgroup)
set(dedloc_little_memory OFF)
set(dedloc_batches_default ON)
if(dedloc_memory_mib LESS 3000)
    set(dedloc_little_memory ON)
    set(dedloc_batches_default OFF)
endif()

add_library(dedloc_settings INTERFACE)
# Programs outside the checkout choose their own warnings (DedlocInstall.cmake).
target_compile_options(
    dedloc_settings INTERFACE -ffp-contract=off $<BUILD_INTERFACE:-Wall> $<BUILD_INTERFACE:-Wextra>
                              $<BUILD_INTERFACE:-Wpedantic> $<BUILD_INTERFACE:-Wshadow>
                              $<BUILD_INTERFACE:-Wconversion> $<BUILD_INTERFACE:-Wno-sign-conversion>)
if(DEDLOC_WERROR)
    target_compile_options(dedloc_settings INTERFACE $<BUILD_INTERFACE:-Werror>)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # False alarms of g++ 12 inside coroutines, variants and inlined library code.
    target_compile_options(
        dedloc_settings INTERFACE -Wno-maybe-uninitialized -Wno-restrict -Wno-array-bounds
                                  -Wno-stringop-overflow -Wno-stringop-overread
                                  -Wno-mismatched-new-delete -Wno-dangling-pointer)
    # The compiler collects its garbage when it has a gigabyte, not at every turn: a tenth of its time.
    if(NOT dedloc_little_memory)
        add_compile_options(--param=ggc-min-heapsize=1000000)
    endif()
endif()
# Each function in a section of its own, so that programs can leave out those that nobody calls: a
# batch of sources is one otherwise, and all of it stays.
add_compile_options(-ffunction-sections -fdata-sections)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    # Asio 1.22 does not see clang 14's coroutines by itself.
    target_compile_definitions(
        dedloc_settings INTERFACE __cpp_impl_coroutine=201902L ASIO_HAS_CO_AWAIT
                                  ASIO_HAS_STD_COROUTINE)
    target_compile_options(
        dedloc_settings INTERFACE -Wno-builtin-macro-redefined -Wno-macro-redefined
                                  -Wno-gnu-zero-variadic-macro-arguments -Wno-shorten-64-to-32
                                  -Wno-implicit-int-float-conversion)
endif()
if(DEDLOC_SANITIZE)
    target_compile_options(
        dedloc_settings INTERFACE -fsanitize=${DEDLOC_SANITIZE} -fno-omit-frame-pointer)
    target_link_options(dedloc_settings INTERFACE -fsanitize=${DEDLOC_SANITIZE})
    if(DEDLOC_SANITIZE MATCHES "undefined" AND CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
        # clang 14 puts words before each function for it, which a coroutine's parts do not survive:
        # "Cannot represent a difference across sections".
        target_compile_options(dedloc_settings INTERFACE -fno-sanitize=function)
    endif()
    if(DEDLOC_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
        # Asio has fences, of which g++ says that TSan does not follow them.
        target_compile_options(dedloc_settings INTERFACE -Wno-tsan)
    endif()
endif()
target_include_directories(dedloc_settings INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>
                                                     $<INSTALL_INTERFACE:include>)
target_compile_features(dedloc_settings INTERFACE $<INSTALL_INTERFACE:cxx_std_20>)
dedloc_installed(dedloc_settings settings)
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
target_link_libraries(dedloc_settings INTERFACE Threads::Threads)

find_program(DEDLOC_CCACHE ccache)
if(DEDLOC_CCACHE)
    # Nothing more than a precompiled header needs: without ccache's look at the times of headers, one
    # that changes while a file compiles leaves a wrong object in the cache.
    set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros
                                    ${DEDLOC_CCACHE})
    add_compile_options($<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)
endif()
# Forty programs are linked; where mold is installed each takes a tenth of GNU ld's time.
find_program(DEDLOC_MOLD mold)
if(DEDLOC_MOLD)
    add_link_options(-fuse-ld=mold)
endif()
# What people install is linked without functions that nobody calls, and with one of those that have
# the same code (templates of like types): the wheel has to be small. Nothing here compares functions
# by their addresses.
set(DEDLOC_SMALL_LINK -Wl,--gc-sections)
if(DEDLOC_MOLD)
    list(APPEND DEDLOC_SMALL_LINK -Wl,--icf=all)
endif()
if(DEDLOC_TESTS)
    find_package(GTest REQUIRED)
    include(GoogleTest)
endif()
if(DEDLOC_BENCH)
    find_package(benchmark REQUIRED)
endif()

# dedloc_batches(TARGET): compiles the target's sources twelve at a time, as one file each time. What a
# header brings (templates of Asio, libtorch, nlohmann-json) is then made once for twelve sources.
# Sources of one module therefore share their unnamed namespaces: their names must differ within a module.
# With DEDLOC_BATCHES=OFF, as in the presets dev and clang, each source is seen alone, with the includes
# that it has, and a change of one of them costs seconds.
option(DEDLOC_BATCHES "Compile twelve sources at a time" ${dedloc_batches_default})
function(dedloc_batches TARGET)
    if(NOT DEDLOC_BATCHES)
        return()
    endif()
    set_target_properties(${TARGET} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 12)
    # Types of unnamed namespaces in coroutines' frames: harmless in a file that nobody includes twice.
    target_compile_options(${TARGET} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
endfunction()
