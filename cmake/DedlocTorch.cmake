# Finds libtorch and sets TORCH_LIBRARIES: Debian's, or another that CMAKE_PREFIX_PATH leads to; or, with
# DEDLOC_TORCH_FROM (gpu.sh), the one inside an installed PyTorch, the folder that `torch.__path__` names.
# PyTorch's own CMake files want the whole CUDA toolkit, compiler included. dedloc compiles nothing for
# CUDA, so headers and libraries are enough.
set(DEDLOC_TORCH_FROM "" CACHE PATH "Folder of an installed PyTorch, for its libtorch; or empty")

if(NOT DEDLOC_TORCH_FROM)
    find_package(Torch REQUIRED)
    return()
endif()

foreach(needed include/torch/csrc/api/include/torch/torch.h lib/libtorch_cpu.so lib/libc10.so)
    if(NOT EXISTS ${DEDLOC_TORCH_FROM}/${needed})
        message(FATAL_ERROR "DEDLOC_TORCH_FROM: there is no ${needed} in ${DEDLOC_TORCH_FROM}; it must be the "
                            "folder that python3 -c 'import torch; print(torch.__path__[0])' prints")
    endif()
endforeach()
file(STRINGS ${DEDLOC_TORCH_FROM}/share/cmake/Torch/TorchConfig.cmake old_abi
     REGEX "GLIBCXX_USE_CXX11_ABI=0")
if(old_abi)
    message(FATAL_ERROR "DEDLOC_TORCH_FROM: the PyTorch in ${DEDLOC_TORCH_FROM} was built with the old C++ ABI; "
                        "take 2.7 or newer")
endif()

# PyTorch brings headers of another {fmt} than the one that is linked; the latter's come first.
get_target_property(fmt_folder fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/headers)
file(CREATE_LINK ${fmt_folder}/fmt ${CMAKE_BINARY_DIR}/headers/fmt SYMBOLIC)

add_library(dedloc_libtorch INTERFACE)
target_include_directories(
    dedloc_libtorch SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/headers ${DEDLOC_TORCH_FROM}/include
                                     ${DEDLOC_TORCH_FROM}/include/torch/csrc/api/include)
target_link_libraries(dedloc_libtorch INTERFACE ${DEDLOC_TORCH_FROM}/lib/libtorch_cpu.so
                                                ${DEDLOC_TORCH_FROM}/lib/libc10.so)
# The linker leaves open what these libraries need of CUDA: PyTorch brings it at the start.
target_link_options(dedloc_libtorch INTERFACE -Wl,--allow-shlib-undefined)
if(EXISTS ${DEDLOC_TORCH_FROM}/lib/libtorch_cuda.so)
    # The library registers its kernels when it is loaded; nobody calls it by name.
    target_link_libraries(
        dedloc_libtorch INTERFACE -Wl,--push-state,--no-as-needed
                                  ${DEDLOC_TORCH_FROM}/lib/libtorch_cuda.so -Wl,--pop-state
                                  ${DEDLOC_TORCH_FROM}/lib/libc10_cuda.so)
endif()
set(TORCH_LIBRARIES dedloc_libtorch)
