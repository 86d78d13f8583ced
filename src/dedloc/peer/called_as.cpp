#include "dedloc/peer/called_as.h"

#include <filesystem>
#include <fstream>
#include <utility>

#include "dedloc/peer/trainer_program.h"

namespace dedloc::peer {

std::vector<std::string> own_arguments() {
    std::ifstream file("/proc/self/cmdline", std::ios::binary);
    std::vector<std::string> words;
    for (std::string word; std::getline(file, word, '\0');) words.push_back(std::move(word));
    return words;
}

std::string called_as() {
    const std::vector<std::string> words = own_arguments();
    return words.empty() || words.front().empty() ? "dedloc" : words.front();
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
