#include "dedloc/peer/called_as.h"

#include <filesystem>
#include <fstream>

#include "dedloc/peer/trainer_program.h"

namespace dedloc::peer {

std::string called_as() {
    std::ifstream words("/proc/self/cmdline", std::ios::binary);
    std::string first;
    std::getline(words, first, '\0');
    return first.empty() ? "dedloc" : first;
}

std::string own_program() {
    std::error_code error;
    const auto path = std::filesystem::read_symlink("/proc/self/exe", error);
    if (error) return called_as();
    std::string program = path.string();
    constexpr std::string_view replaced = " (deleted)";
    if (program.ends_with(replaced) && !std::filesystem::exists(program, error))
        program.resize(program.size() - replaced.size());
    // The one that people call stands beside it, and takes every command.
    const std::filesystem::path called = std::filesystem::path(program).parent_path() / "dedloc";
    const bool is_trainer = std::filesystem::path(program).filename() == trainer_name;
    if (is_trainer && std::filesystem::exists(called, error)) return called.string();
    return program;
}

std::string as_others_call_it(const std::string& here) {
    return here.find("build/") == std::string::npos ? here : "build/release/bin/dedloc";
}

}  // namespace dedloc::peer
