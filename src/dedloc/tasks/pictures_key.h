// The key of a run file that says which pictures its trainers need.
//
//   "none"           the host's folder decides (TrainingTask::decided_config)
//   "any"            peers may have different pictures
//   64 hex           the fingerprint of the folder that everybody needs
//   64 hex:letters   the same with its sketch, by which a peer is told which files differ
//
// Thread: any. Errors: bad_input for anything else.

#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "dedloc/images/folder.h"

namespace dedloc::tasks {

inline constexpr const char* undecided_pictures = "none";
inline constexpr const char* any_pictures = "any";
inline constexpr std::size_t fingerprint_letters = 64;
inline constexpr std::size_t pictures_key_bytes_max =
    fingerprint_letters + 1 + folders::FileSketch::text_bytes;

struct PicturesKey {
    bool undecided = false;
    bool any = false;
    Digest fingerprint;
    std::optional<folders::FileSketch> sketch;
};

// `key`: "swav.pictures".
Result<PicturesKey> parse_pictures_key(std::string_view key, const std::string& value);
Ok check_pictures_key(std::string_view key, const std::string& value);
std::string pictures_key_of(const images::ImageFolder& folder);

// "a/1.png is another picture there; b/2.png is not in the run; a picture of c/ is missing here".
// Empty: the sketches tell nothing.
std::string say_differences(const images::ImageFolder& here, const folders::FileSketch& there);

}  // namespace dedloc::tasks
