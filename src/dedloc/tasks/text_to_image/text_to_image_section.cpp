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
    const PicturesKeys keys = pictures_keys(task);
    const ImageCodesConfig sizes{.side = static_cast<std::int64_t>(keys.side),
                                 .codes_side = static_cast<std::int64_t>(keys.codes_side),
                                 .codes = static_cast<std::int64_t>(keys.codes),
                                 .width = static_cast<std::int64_t>(keys.codes_width)};
    DEDLOC_TRY_VOID(check(sizes));
    return sizes;
}

Result<TextToImageConfig> text_to_image_sizes(const run::TaskConfig& task) {
    const TextToImageKeys keys = text_to_image_keys(task);
    const PicturesKeys pictures = pictures_keys(task);
    TextToImageConfig sizes;
    sizes.width = static_cast<std::int64_t>(keys.width);
    sizes.layers = static_cast<std::int64_t>(keys.layers);
    sizes.heads = static_cast<std::int64_t>(keys.heads);
    sizes.head_width = static_cast<std::int64_t>(keys.head_width);
    sizes.shared_layers = static_cast<std::int64_t>(keys.shared_layers);
    sizes.convolution_side = static_cast<std::int64_t>(keys.convolution_side);
    sizes.reversible = keys.reversible;
    sizes.text_vocabulary = static_cast<std::int64_t>(keys.words);
    sizes.text_length = static_cast<std::int64_t>(keys.text_length);
    sizes.image_vocabulary = static_cast<std::int64_t>(pictures.codes);
    sizes.image_side = static_cast<std::int64_t>(pictures.codes_side);
    DEDLOC_TRY_VOID(check(sizes));
    return sizes;
}

Result<std::optional<Digest>> codes_hash_of(const run::TaskConfig& task) {
    return codes_hash_from(pictures_keys(task).codes_hash);
}

}  // namespace dedloc::tasks
