#include "dedloc/codec/chooser.h"

#include <algorithm>

namespace dedloc::codec {
namespace {

// Joined to the last one if that has the same codec.
void append(std::vector<CodecRange>& ranges, std::uint64_t count, CodecId codec) {
    if (count == 0) return;
    if (!ranges.empty() && ranges.back().codec == codec)
        ranges.back().count += count;
    else
        ranges.push_back({ranges.empty() ? 0 : ranges.back().end(), count, codec});
}

std::size_t bytes_of_many(CodecId codec) { return encoded_size(codec, 1024); }

}  // namespace

std::string_view to_string(TensorRole role) {
    switch (role) {
        case TensorRole::gradient:
            return "gradient";
        case TensorRole::parameter:
            return "parameter";
        case TensorRole::optimizer_state:
            return "optimizer_state";
        case TensorRole::buffer:
            return "buffer";
        case TensorRole::activation:
            return "activation";
    }
    return "?";
}

bool CodecRule::fits(const TensorFacts& tensor) const {
    return (!role || *role == tensor.role) && tensor.elements_count >= elements_least &&
           tensor.elements_count < elements_below &&
           tensor.name.find(name_part) != std::string::npos;
}

CodecId CodecRules::choose(const TensorFacts& tensor) const {
    for (const CodecRule& rule : rules)
        if (rule.fits(tensor)) return rule.codec;
    return otherwise;
}

std::vector<CodecRange> codec_ranges(const CodecRules& rules,
                                     const std::vector<TensorFacts>& tensors) {
    std::vector<CodecRange> ranges;
    for (const TensorFacts& tensor : tensors)
        append(ranges, tensor.elements_count, rules.choose(tensor));
    return ranges;
}

std::vector<CodecRange> without_short_ranges(const std::vector<CodecRange>& ranges,
                                             std::uint64_t shortest) {
    std::vector<CodecRange> longer;
    for (const CodecRange& range : ranges) {
        std::uint64_t taken = 0;  // by the range before
        if (!longer.empty() && bytes_of_many(longer.back().codec) > bytes_of_many(range.codec)) {
            const CodecRange& before = longer.back();
            taken = std::min(range.count, shortest - std::min(shortest, before.count));
            if (range.count - taken < shortest) taken = range.count;
            append(longer, taken, before.codec);
        }
        append(longer, range.count - taken, range.codec);
    }
    return longer;
}

double element_bytes(const std::vector<CodecRange>& ranges) {
    if (ranges.empty()) return 0;
    double bytes = 0;
    for (const CodecRange& range : ranges)
        bytes +=
            static_cast<double>(encoded_size(range.codec, static_cast<std::size_t>(range.count)));
    return bytes / static_cast<double>(ranges.back().end());
}

}  // namespace dedloc::codec
