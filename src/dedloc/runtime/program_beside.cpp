#include "dedloc/runtime/program_beside.h"

#include <filesystem>

namespace dedloc::runtime {

std::string program_beside(std::string_view name) {
    std::error_code error;
    const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
    return (self.parent_path() / name).string();
}

}  // namespace dedloc::runtime
