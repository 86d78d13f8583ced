// Says in which files two folders differ, as far as their sketches tell.
//
// Thread: any.

#pragma once
#include <span>
#include <string>
#include <string_view>

#include "dedloc/folders/sketch.h"

namespace dedloc::folders {

struct FileWords {
    std::string_view file = "file";
    std::string_view differs = "has another content there";
};

// "a/1.txt has another content there; b/2.txt is not among the run's; a file of c/ is missing".
// `here`: the paths of this machine's folder. Empty: the sketches tell nothing.
std::string words_of_differences(const FileDifferences& found,
                                 std::span<const std::string> here,
                                 const FileWords& words);

}  // namespace dedloc::folders
