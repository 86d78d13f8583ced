#include "dedloc/codec/chooser.h"

namespace dedloc::codec {

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
    std::uint64_t position = 0;
    for (const TensorFacts& tensor : tensors) {
        if (tensor.elements_count == 0) continue;
        const CodecId codec = rules.choose(tensor);
        if (!ranges.empty() && ranges.back().codec == codec)
            ranges.back().count += tensor.elements_count;
        else
            ranges.push_back({position, tensor.elements_count, codec});
        position += tensor.elements_count;
    }
    return ranges;
}

}  // namespace dedloc::codec
