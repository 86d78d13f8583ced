#include "dedloc/torch_bridge/cuda_library.h"

#include <algorithm>
#include <array>
#include <dlfcn.h>
#include <filesystem>

namespace dedloc::torch_bridge {

void load_cuda_library() {
    constexpr std::array drivers = {"/dev/nvidiactl", "/dev/dxg"};  // Linux; Windows' WSL2
    const bool has_card = std::ranges::any_of(drivers, [](const char* driver) {
        std::error_code error;
        return std::filesystem::exists(driver, error);
    });
    // The library registers its kernels; nobody calls it by name. Without it there is the CPU.
    if (has_card) (void)::dlopen("libtorch_cuda.so", RTLD_LAZY | RTLD_GLOBAL);
}

}  // namespace dedloc::torch_bridge
