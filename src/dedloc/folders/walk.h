// list_files: the files in and below a folder that are wanted, in an order that is the same on
// every machine. Folders of texts and of pictures are both walked by it.
//
// Left out without a word: whatever is hidden (its name begins with a dot), and what systems and
// their tools keep in a folder (lost+found, @eaDir, __MACOSX …): nobody's training data.
// Left out with a warning, the first left_out_logged_max by name: folders that may not be read,
// links to folders (they may lead round in a circle), and wanted names that are no file. A folder
// whose listing breaks off is left out whole: half of it would differ from machine to machine.
//
// Thread: any. Cost: one listing of each folder.
// Errors: local_fault  the folder itself cannot be listed
//         bad_input    more files than files_max, or folders than folders_max

#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/result.h"

namespace dedloc::folders {

inline constexpr std::size_t folders_max = 1'000'000;     // in one tree; more is a whole disk
inline constexpr std::uint64_t left_out_logged_max = 10;  // of one tree

struct ListOptions {
    // By the file's name: "1.jpg".
    std::function<bool(std::string_view name)> wanted{};
    std::size_t files_max = 1'000'000;
    // The module that warns.
    std::string_view logged_as = "folders";
    // The advice ends the sentence about a link to a folder: what its user should do.
    std::string_view link_advice = "put the folder itself there";
    // Links that lie in the folder itself are followed, unless they lead back to it.
    bool follow_links_of_root = false;
};

// Paths below `root`, with '/', sorted by their bytes.
Result<std::vector<std::string>> list_files(const std::string& root, const ListOptions& options);

// ".jpg" of "A.JPG".
std::string lower_extension(std::string_view name);

}  // namespace dedloc::folders
