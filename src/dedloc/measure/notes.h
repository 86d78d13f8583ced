// Processes that share a folder tell each other by files, which are there whole or not at all.

#pragma once
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

namespace dedloc::measure {

inline void leave_note(const std::filesystem::path& folder,
                       const std::string& name,
                       std::string_view text) {
    const auto hidden = folder / ("." + name);
    std::ofstream(hidden, std::ios::binary) << text;
    std::filesystem::rename(hidden, folder / name);
}

// Nothing: not there.
inline std::optional<std::string> read_note(const std::filesystem::path& folder,
                                            const std::string& name) {
    std::ifstream file(folder / name, std::ios::binary);
    if (!file) return std::nullopt;
    return std::string(std::istreambuf_iterator<char>(file), {});
}

}  // namespace dedloc::measure
