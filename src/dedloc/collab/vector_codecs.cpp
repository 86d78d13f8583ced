#include "dedloc/collab/vector_codecs.h"

#include <map>

#include "dedloc/base/check.h"

namespace dedloc::collab {
namespace {

constexpr std::uint64_t range_elements_min = 4096;
constexpr std::size_t codec_ranges_max = 2048;  // each may be a part more in every plan

std::vector<codec::TensorFacts> tensors_of(const Layout& layout) {
    std::vector<codec::TensorFacts> tensors;
    std::uint64_t count = 0;
    for (const optim::ParameterGroup& group : layout.parameters) {
        tensors.push_back({group.name, group.count, codec::TensorRole::gradient});
        count += group.count;
    }
    DEDLOC_CHECK(count == layout.parameters_count);
    tensors.push_back({"buffers", layout.buffers_count, codec::TensorRole::buffer});
    return tensors;
}

// Buffers' changes are as large as they like beside gradients, and one scale of 8 bits for both
// would make zeros of these.
codec::CodecRules rules_for_buffers() {
    codec::CodecRule buffers;
    buffers.role = codec::TensorRole::buffer;
    buffers.codec = codec_of_small_tensors;
    return {{buffers}, codec_of_large_tensors};
}

codec::CodecRules rules_of(std::uint64_t threshold) {
    codec::CodecRules rules = rules_for_buffers();
    codec::CodecRule small;
    small.elements_below = threshold;
    small.codec = codec_of_small_tensors;
    rules.rules.push_back(small);
    return rules;
}

std::string in_millions(std::uint64_t elements) {
    return fmt::format("{:.3g} M", static_cast<double>(elements) / 1e6);
}

}  // namespace

std::vector<codec::CodecRange> vector_codecs(const AveragingConfig& averaging,
                                             const Layout& layout) {
    if (layout.vector_count() == 0) return {};
    const std::vector<codec::TensorFacts> tensors = tensors_of(layout);
    if (averaging.codec == codec_of_large_tensors)
        return codec::without_short_ranges(codec::codec_ranges(rules_for_buffers(), tensors),
                                           range_elements_min);
    if (averaging.codec) return {{0, layout.vector_count(), *averaging.codec}};
    std::vector<codec::CodecRange> ranges;
    std::uint64_t threshold = averaging.codec_threshold;
    do {
        ranges = codec::without_short_ranges(codec::codec_ranges(rules_of(threshold), tensors),
                                             range_elements_min);
        threshold *= 2;
    } while (ranges.size() > codec_ranges_max);
    return ranges;
}

std::string describe_codecs(const AveragingConfig& averaging, const Layout& layout) {
    const std::vector<codec::CodecRange> ranges = vector_codecs(averaging, layout);
    std::map<codec::CodecId, std::uint64_t, std::greater<>> elements;
    for (const codec::CodecRange& range : ranges) elements[range.codec] += range.count;
    std::string text = "adaptive: ";
    if (averaging.codec) text = ranges.size() > 1 ? "one, but for buffers: " : "one for all: ";
    bool first = true;
    for (const auto& [codec, count] : elements) {
        text += fmt::format("{}{}{} in {}",
                            first ? "" : ", ",
                            in_millions(count),
                            first ? " elements" : "",
                            codec::to_string(codec));
        first = false;
    }
    return text + fmt::format(", {:.3g} bytes an element", codec::element_bytes(ranges));
}

}  // namespace dedloc::collab
