# What people install: `cmake --install BUILD --prefix /usr`, or Debian packages by `cpack`.
#
#   cmake --build --preset release && cpack --config build/release/CPackConfig.cmake -B build/packages
#
#   dedloc-core      dedloc without what trains: assist, relay, watch, audit, report; manual pages,
#                    completions, systemd units
#   dedloc           the trainer and what prepares data
#   libdedloc-dev    the C library, headers, CMake's config, pkg-config
#   python3-dedloc   the Python package; torch comes from wherever people have it
#
# Nothing in a package tells when or where it was built: two builds have the same bytes.
# Packages are made of what is built, and tests need not be: `cmake --build BUILD --target dedloc
# dedloc_shared` is enough.
set(CMAKE_SKIP_INSTALL_ALL_DEPENDENCY ON)
set(programs_core dedloc dedloc-ask-router)
set(programs_trainer dedloc-trainer dedloc-train-tokenizer dedloc-draw-emoji)
foreach(component core trainer)
    foreach(program IN LISTS programs_${component})
        if(TARGET ${program})
            install(TARGETS ${program} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}
                    COMPONENT ${component})
        endif()
    endforeach()
endforeach()

# From --help, when it is installed: a build for tests needs none.
find_package(Python3 3.11 COMPONENTS Interpreter)
if(Python3_FOUND)
    install(CODE "execute_process(
        COMMAND \"${Python3_EXECUTABLE}\" \"${PROJECT_SOURCE_DIR}/tools/command_pages.py\"
                \"$<TARGET_FILE:dedloc>\" \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\"
        COMMAND_ERROR_IS_FATAL ANY)" COMPONENT core)
endif()
install(FILES packaging/systemd/dedloc-relay.service DESTINATION lib/systemd/system COMPONENT core)
install(FILES packaging/systemd/dedloc@.service DESTINATION lib/systemd/user COMPONENT core)

configure_file(packaging/dedloc.pc.in ${PROJECT_BINARY_DIR}/dedloc.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/dedloc.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig
        COMPONENT c_api)
install(DIRECTORY python/dedloc DESTINATION lib/python3/dist-packages COMPONENT python3
        EXCLUDE_FROM_ALL FILES_MATCHING PATTERN "*.py" PATTERN "py.typed")
install(FILES $<TARGET_FILE:dedloc_shared> DESTINATION lib/python3/dist-packages/dedloc
        RENAME libdedloc.so COMPONENT python3 EXCLUDE_FROM_ALL)
# Debian's name for a package's licence; with the licences of what is linked.
foreach(component core dedloc-core trainer dedloc c_api libdedloc-dev python3 python3-dedloc)
    if(component MATCHES "^(core|trainer|c_api|python3)$")
        set(of ${component})
    elseif(of)
        install(FILES LICENSE DESTINATION share/doc/${component} RENAME copyright
                COMPONENT ${of} EXCLUDE_FROM_ALL)
        install(FILES docs/licences.md DESTINATION share/doc/${component} RENAME NOTICE
                COMPONENT ${of} EXCLUDE_FROM_ALL)
        set(of)
    endif()
endforeach()

set(CPACK_PACKAGE_NAME dedloc)
set(CPACK_PACKAGE_VENDOR dedloc)
set(CPACK_PACKAGE_CONTACT "the authors of dedloc <dedloc@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "train one neural network together over the Internet")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_GENERATOR DEB)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL core trainer c_api cxx python3)
if(DEDLOC_TORCH_FROM)
    list(REMOVE_ITEM CPACK_COMPONENTS_ALL cxx)
endif()
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
foreach(component c_api cxx)
    string(TOUPPER ${component} upper)
    set(CPACK_COMPONENT_${upper}_GROUP dev)
endforeach()
foreach(component core trainer python3)
    string(TOUPPER ${component} upper)
    set(CPACK_COMPONENT_${upper}_GROUP ${component})
endforeach()

set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(same_version "(= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_CORE_PACKAGE_NAME dedloc-core)
set(CPACK_DEBIAN_CORE_DESCRIPTION "train one neural network together: helpers and observers
 Lends a line (assist, relay), shows a run (watch, report, why) and checks it (audit).
 What trains is in the package dedloc.")
set(CPACK_DEBIAN_TRAINER_PACKAGE_NAME dedloc)
set(CPACK_DEBIAN_TRAINER_PACKAGE_DEPENDS "dedloc-core ${same_version}")
set(CPACK_DEBIAN_TRAINER_DESCRIPTION "train one neural network together over the Internet
 Computers of many people train one model: they come and go, sit behind home
 routers and differ in everything; nobody is the master.")
set(CPACK_DEBIAN_DEV_PACKAGE_NAME libdedloc-dev)
set(CPACK_DEBIAN_DEV_PACKAGE_SECTION libdevel)
set(CPACK_DEBIAN_DEV_DESCRIPTION "train one neural network together: library and headers
 Training loops of one's own in C and C++, tasks, experts, the table of peers.")
set(CPACK_DEBIAN_PYTHON3_PACKAGE_NAME python3-dedloc)
set(CPACK_DEBIAN_PYTHON3_PACKAGE_SECTION python)
set(CPACK_DEBIAN_PYTHON3_PACKAGE_DEPENDS "python3 (>= 3.9)")
set(CPACK_DEBIAN_PYTHON3_PACKAGE_SUGGESTS "python3-torch")
set(CPACK_DEBIAN_PYTHON3_PACKAGE_CONTROL_EXTRA
    ${PROJECT_SOURCE_DIR}/packaging/python3/postinst ${PROJECT_SOURCE_DIR}/packaging/python3/prerm)
set(CPACK_DEBIAN_PYTHON3_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_PYTHON3_DESCRIPTION "train one PyTorch network together over the Internet
 An optimizer around one's own: its step is made together with all peers of a run.")
include(CPack)
