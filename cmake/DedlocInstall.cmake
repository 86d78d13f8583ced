# C++ outside the checkout:
#
#   cmake --install BUILD --prefix PREFIX --component cxx
#   find_package(dedloc REQUIRED COMPONENTS cxx)
#   target_link_libraries(mine PRIVATE dedloc::tasks)         # or another module; program has main()
#   target_link_libraries(loop PRIVATE dedloc::torch_bridge ${TORCH_LIBRARIES})  # a loop with libtorch
#
# Installed are the modules' libraries, as dedloc::MODULE, the headers that
# cmake/public_headers.txt names, and what those include. Nothing else is promised to stay.
include(GNUInstallDirs)
set(DEDLOC_CMAKE_FOLDER ${CMAKE_INSTALL_LIBDIR}/cmake/dedloc)

# dedloc_installed(TARGET NAME): a library of ours, which programs outside link as dedloc::NAME.
function(dedloc_installed TARGET NAME)
    add_library(dedloc::${NAME} ALIAS ${TARGET})
    set_target_properties(${TARGET} PROPERTIES EXPORT_NAME ${NAME})
    # PyTorch's own libtorch lies wherever Python keeps it: such a build is for this machine alone.
    if(NOT DEDLOC_TORCH_FROM)
        install(TARGETS ${TARGET} EXPORT dedloc_cxx ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/dedloc
                COMPONENT cxx EXCLUDE_FROM_ALL)
    endif()
endfunction()

# dedloc_install_headers(): the public headers and all that they include, found again at each configure.
function(dedloc_install_headers)
    set(listed ${PROJECT_SOURCE_DIR}/cmake/public_headers.txt)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${listed})
    file(STRINGS ${listed} pending REGEX "^dedloc/")
    set(done)
    while(pending)
        list(POP_FRONT pending header)
        if(header IN_LIST done)
            continue()
        endif()
        list(APPEND done ${header})
        file(STRINGS ${PROJECT_SOURCE_DIR}/src/${header} lines REGEX "^#include \"dedloc/")
        foreach(line IN LISTS lines)
            string(REGEX REPLACE "^#include \"([^\"]*)\".*" "\\1" included ${line})
            list(APPEND pending ${included})
        endforeach()
    endwhile()
    foreach(header IN LISTS done)
        get_filename_component(folder ${header} DIRECTORY)
        install(FILES ${PROJECT_SOURCE_DIR}/src/${header}
                DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/${folder} COMPONENT cxx EXCLUDE_FROM_ALL)
    endforeach()
endfunction()

# dedloc_install_package(): what find_package(dedloc) reads; after all modules.
function(dedloc_install_package)
    dedloc_install_headers()
    include(CMakePackageConfigHelpers)
    set(DEDLOC_INSTALLED_TORCH ${DEDLOC_TORCH})
    configure_file(${PROJECT_SOURCE_DIR}/cmake/dedlocConfig.cmake.in
                   ${PROJECT_BINARY_DIR}/dedlocConfig.cmake @ONLY)
    write_basic_package_version_file(${PROJECT_BINARY_DIR}/dedlocConfigVersion.cmake
                                     COMPATIBILITY SameMinorVersion)
    set(files ${PROJECT_BINARY_DIR}/dedlocConfig.cmake ${PROJECT_BINARY_DIR}/dedlocConfigVersion.cmake)
    install(FILES ${files} DESTINATION ${DEDLOC_CMAKE_FOLDER} COMPONENT c_api)
    install(FILES ${files} DESTINATION ${DEDLOC_CMAKE_FOLDER} COMPONENT cxx EXCLUDE_FROM_ALL)
    if(NOT DEDLOC_TORCH_FROM)
        install(EXPORT dedloc_cxx NAMESPACE dedloc:: FILE dedloc_cxx.cmake
                DESTINATION ${DEDLOC_CMAKE_FOLDER} COMPONENT cxx EXCLUDE_FROM_ALL)
    endif()
endfunction()
