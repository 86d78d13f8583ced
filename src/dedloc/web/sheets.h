// Sheets: what the run's model made of a peer's prompts (`--watch-prompts`), checkpoint by
// checkpoint: step-N.png or step-N.txt in a folder.
//
// Thread: any; blocks.

#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/result.h"

namespace dedloc::web {

inline constexpr std::size_t sheets_shown_max = 12;  // of either kind, the newest
inline constexpr std::string_view sheets_folder_name = "prompts";
inline constexpr std::size_t picture_bytes_max = 16u << 20;
inline constexpr std::size_t sheet_text_bytes_max = 1u << 20;

struct Sheets {
    std::vector<std::uint64_t> pictures{};  // steps, in order
    std::vector<std::uint64_t> texts{};

    // Returns the sheets of this step and of earlier ones.
    Sheets until(std::uint64_t step) const;
    bool empty() const { return pictures.empty() && texts.empty(); }
};
Sheets sheets_in(const std::string& folder);
std::string sheets_folder_of(const std::string& peer_directory);

struct SheetFile {
    std::string bytes;
    std::string_view content_type;
};
// "150.png", "150.txt". Errors: not_found.
Result<SheetFile> read_sheet(const std::string& folder, std::string_view name);

}  // namespace dedloc::web
