#include "dedloc/tasks/text_to_image/text_to_image_config.h"

#include <algorithm>
#include <bit>

namespace dedloc::tasks {
namespace {

std::int64_t layer_weights(const TextToImageConfig& c) {
    const std::int64_t inner = c.heads * c.head_width;
    const std::int64_t attention = c.width * 3 * inner + inner * c.width + c.width;
    const std::int64_t feed_forward =
        c.width * 8 * c.width + 8 * c.width + 4 * c.width * c.width + c.width;
    return attention + feed_forward;
}

std::int64_t with_sets(const TextToImageConfig& c, std::int64_t sets) {
    const std::int64_t norms = c.layers * 2 * 3 * c.width;  // weight, bias, scale
    const std::int64_t logits = 2 * c.width + c.tokens() * c.width + c.tokens();
    return sets * layer_weights(c) + norms + logits;
}

}  // namespace

std::int64_t TextToImageConfig::weight_set(std::int64_t layer) const {
    if (last_layer_apart && layer == layers - 1) return weight_sets() - 1;
    return layer % shared_layers;
}

std::int64_t TextToImageConfig::weight_sets() const {
    const std::int64_t in_cycle = last_layer_apart ? layers - 1 : layers;
    return std::min(in_cycle, shared_layers) + (last_layer_apart ? 1 : 0);
}

std::int64_t TextToImageConfig::parameters_count() const { return with_sets(*this, weight_sets()); }

std::int64_t TextToImageConfig::unshared_parameters_count() const {
    return with_sets(*this, layers);
}

Ok check(const TextToImageConfig& c) {
    constexpr std::int64_t size_max = 1 << 20;
    const std::pair<const char*, std::int64_t> sizes[] = {{"width", c.width},
                                                          {"layers", c.layers},
                                                          {"heads", c.heads},
                                                          {"head_width", c.head_width},
                                                          {"text_vocabulary", c.text_vocabulary},
                                                          {"text_length", c.text_length},
                                                          {"image_vocabulary", c.image_vocabulary},
                                                          {"image_side", c.image_side},
                                                          {"shared_layers", c.shared_layers}};
    for (const auto& [name, value] : sizes)
        if (value < 1 || value > size_max)
            return make_error(ErrorKind::bad_input,
                              "text_to_image.{} is {}; it must be 1 to {}",
                              name,
                              value,
                              size_max);
    if (c.width % 4 != 0)
        return make_error(ErrorKind::bad_input,
                          "text_to_image.width is {}; it must be a multiple of 4, as a quarter of "
                          "it is shifted from the token above",
                          c.width);
    if (c.head_width < 12)
        return make_error(ErrorKind::bad_input,
                          "text_to_image.head_width is {}; positions need at least 12",
                          c.head_width);
    if (c.convolution_side < 1 || c.convolution_side % 2 == 0)
        return make_error(ErrorKind::bad_input,
                          "text_to_image.convolution_side is {}; it must be odd",
                          c.convolution_side);
    return check_guidance(c, c.guidance);
}

Ok check_guidance(const TextToImageConfig& c, double guidance) {
    if (guidance != 1 && c.caption_drop == 0)
        return make_error(ErrorKind::bad_input,
                          "a guidance of {} compares with what is drawn without a caption, which "
                          "the model learns where text_to_image.caption_drop is above 0",
                          guidance);
    return {};
}

Ok check(const ImageCodesConfig& c) {
    const bool fits = c.codes_side > 0 && c.side > c.codes_side && c.side <= 1024 &&
                      c.side % c.codes_side == 0 &&
                      std::has_single_bit(static_cast<std::uint64_t>(c.side / c.codes_side));
    if (!fits)
        return make_error(ErrorKind::bad_input,
                          "{} × {} codes do not fit pictures of {} × {}: a power of two of pixels "
                          "is a code",
                          c.codes_side,
                          c.codes_side,
                          c.side,
                          c.side);
    if (c.codes < 2 || c.codes > 65'536 || c.width < 4 || c.width > 4096)
        return make_error(ErrorKind::bad_input,
                          "{} codes of width {}: 2 to 65536 and 4 to 4096 are possible",
                          c.codes,
                          c.width);
    return {};
}

}  // namespace dedloc::tasks
