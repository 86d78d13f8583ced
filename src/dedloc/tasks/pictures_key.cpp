#include "dedloc/tasks/pictures_key.h"

#include <vector>

#include "dedloc/folders/difference_words.h"

namespace dedloc::tasks {
Result<PicturesKey> parse_pictures_key(std::string_view key, const std::string& value) {
    PicturesKey parsed;
    parsed.undecided = value == undecided_pictures;
    parsed.any = value == any_pictures;
    if (parsed.undecided || parsed.any) return parsed;
    const auto bytes = base::from_hex(std::string_view(value).substr(0, fingerprint_letters));
    const auto digest = bytes ? Digest::from(*bytes) : Result<Digest>(bytes.error());
    if (digest && value.size() == fingerprint_letters) {
        parsed.fingerprint = *digest;
        return parsed;
    }
    if (digest && value[fingerprint_letters] == ':') {
        auto sketch =
            folders::FileSketch::parse(std::string_view(value).substr(fingerprint_letters + 1));
        if (!sketch) return std::move(sketch).error().with_context(key);
        parsed.fingerprint = *digest;
        parsed.sketch = *std::move(sketch);
        return parsed;
    }
    return make_error(ErrorKind::bad_input,
                      "{}: '{}' is not a SHA-256 in hexadecimal, nor \"{}\" (of the host's folder) "
                      "or \"{}\" (peers may have different pictures)",
                      key,
                      value.substr(0, fingerprint_letters),
                      undecided_pictures,
                      any_pictures);
}

Ok check_pictures_key(std::string_view key, const std::string& value) {
    DEDLOC_TRY_VOID(parse_pictures_key(key, value));
    return {};
}

std::string pictures_key_of(const images::ImageFolder& folder) {
    return folder.fingerprint().hex() + ":" + folder.sketch().text();
}

std::string say_differences(const images::ImageFolder& here, const folders::FileSketch& there) {
    std::vector<std::string> paths;
    for (const images::ImageEntry& entry : here.entries()) paths.push_back(entry.path);
    return folders::words_of_differences(
        differences(here.sketch(), there),
        paths,
        {.file = "picture", .differs = "has another content or caption there"});
}

}  // namespace dedloc::tasks
