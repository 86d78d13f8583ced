#include "dedloc/run/vector_codecs.h"

#include <map>

#include "dedloc/base/check.h"

namespace dedloc::run {
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
    return tensors;
}

codec::CodecRules rules_of(std::uint64_t threshold) {
    codec::CodecRule small;
    small.elements_below = threshold;
    small.codec = codec_of_small_tensors;
    return {{small}, codec_of_large_tensors};
}

std::string in_millions(std::uint64_t elements) {
    return fmt::format("{:.3g} M", static_cast<double>(elements) / 1e6);
}

std::vector<codec::CodecRange> parameter_codecs(const AveragingConfig& averaging,
                                                const Layout& layout) {
    if (layout.parameters_count == 0) return {};
    if (averaging.codec) return {{0, layout.parameters_count, *averaging.codec}};
    const std::vector<codec::TensorFacts> tensors = tensors_of(layout);
    std::vector<codec::CodecRange> ranges;
    std::uint64_t threshold = averaging.codec_threshold;
    do {
        ranges = codec::without_short_ranges(codec::codec_ranges(rules_of(threshold), tensors),
                                             range_elements_min);
        threshold *= 2;
    } while (ranges.size() > codec_ranges_max);
    return ranges;
}

}  // namespace

std::vector<codec::CodecRange> vector_codecs(const AveragingConfig& averaging,
                                             const Layout& layout) {
    std::vector<codec::CodecRange> ranges = parameter_codecs(averaging, layout);
    if (layout.buffers_count > 0)
        ranges.push_back({layout.parameters_count, layout.buffers_count, codec_of_buffers});
    return ranges;
}

std::string describe_codecs(const AveragingConfig& averaging, const Layout& layout) {
    const std::vector<codec::CodecRange> ranges = vector_codecs(averaging, layout);
    std::map<codec::CodecId, std::uint64_t, std::greater<>> elements;
    for (const codec::CodecRange& range : ranges) elements[range.codec] += range.count;
    std::string text = "adaptive: ";
    if (averaging.codec) text = elements.size() > 1 ? "one, but for buffers: " : "one for all: ";
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

}  // namespace dedloc::run
