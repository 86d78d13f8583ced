#include "dedloc/tasks/text_to_image/text_to_image_section.h"

namespace dedloc::tasks {
namespace {

Result<std::optional<Digest>> codes_hash_from(const std::string& text) {
    if (text == decided_by_host) return std::optional<Digest>();
    if (const auto bytes = base::from_hex(text))
        if (const auto digest = Digest::from(*bytes)) return std::optional<Digest>(*digest);
    return make_error(ErrorKind::bad_input,
                      "pictures.codes_hash: '{}' is not a SHA-256 in hexadecimal, nor \"{}\"",
                      text.substr(0, 64),
                      decided_by_host);
}

}  // namespace

Result<ImageCodesConfig> image_codes_sizes(const run::TaskConfig& task) {
    const ImageCodesConfig sizes = pictures_keys(task).sizes;
    DEDLOC_TRY_VOID(check(sizes));
    return sizes;
}

Result<TextToImageConfig> text_to_image_sizes(const run::TaskConfig& task) {
    auto sizes = run::keys_of<TextToImageConfig>(task, text_to_image_section_name);
    const ImageCodesConfig codes = pictures_keys(task).sizes;
    sizes.image_vocabulary = codes.codes;
    sizes.image_side = codes.codes_side;
    DEDLOC_TRY_VOID(check(sizes));
    return sizes;
}

Result<std::optional<Digest>> codes_hash_of(const run::TaskConfig& task) {
    return codes_hash_from(pictures_keys(task).codes_hash);
}

}  // namespace dedloc::tasks
