// Which codec for which tensor: rules by size, role and name; the first that fits decides.
//
//   CodecRules rules{{{.elements_below = 65536, .codec = CodecId::fp16}}, CodecId::blockwise8};
//
// is hivemind's SizeAdaptive; a rule with a role is its RoleAdaptive, one with a name its
// PerTensor. Small tensors (biases, norms) suffer most from 8 bits and cost least.
//
// Cost: rules × tensors. Thread: any; pure: all peers of a run get the same answer.

#pragma once
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/codec/codec.h"

namespace dedloc::codec {

enum class TensorRole : std::uint8_t { gradient, parameter, optimizer_state, buffer, activation };
std::string_view to_string(TensorRole role);

struct TensorFacts {
    std::string name;  // as in the model's state dict: "layers.0.norm.weight"
    std::uint64_t elements_count = 0;
    TensorRole role = TensorRole::gradient;
};

struct CodecRule {
    std::optional<TensorRole> role;    // nothing: any
    std::string name_part;             // must occur in the name; "" occurs in every name
    std::uint64_t elements_least = 0;  // least ≤ count < below
    std::uint64_t elements_below = std::numeric_limits<std::uint64_t>::max();
    CodecId codec = CodecId::fp32;

    bool fits(const TensorFacts& tensor) const;
};

struct CodecRules {
    std::vector<CodecRule> rules;
    CodecId otherwise = CodecId::fp16;

    CodecId choose(const TensorFacts& tensor) const;
};

// Elements [offset, offset + count) of the flattened vector travel in one codec.
struct CodecRange {
    std::uint64_t offset = 0;
    std::uint64_t count = 0;
    CodecId codec = CodecId::fp32;

    std::uint64_t end() const { return offset + count; }
    friend bool operator==(const CodecRange&, const CodecRange&) = default;
};

// The flattened vector of `tensors`, in their order; neighbours of one codec are joined. Parts of a
// plan that end at these borders have one codec each.
std::vector<CodecRange> codec_ranges(const CodecRules& rules,
                                     const std::vector<TensorFacts>& tensors);

// The same vector in ranges of which none is shorter than `shortest`, but the first and the last
// may be. No element gets a codec of fewer bytes: a short range takes elements of the next one, if
// that has fewer bytes an element, and all of it where too little would be left.
std::vector<CodecRange> without_short_ranges(const std::vector<CodecRange>& ranges,
                                             std::uint64_t shortest);

// Encoded bytes an element, on average; 0 for no elements.
double element_bytes(const std::vector<CodecRange>& ranges);

}  // namespace dedloc::codec
