// Which elements of a run's averaged vector travel in which codec (the run file's averaging.codec).
//
// One codec for all parameters, or "adaptive", as hivemind's SizeAdaptiveCompression: those of at
// least averaging.codec_threshold elements in 8 bit, smaller ones in fp16. Small tensors (biases,
// norms) suffer most from 8 bits and cost least.
//
// Buffers are in fp32, and a range of their own, whatever the codec: a variance may be 1e8, a
// counter has to be exact, and both are few beside the parameters.
//
// A range of fewer than 4,096 elements is not worth a part of its own: a small tensor between large
// ones takes so many elements of the next one into fp16. Where that leaves more ranges than a plan
// should have parts for, the threshold is doubled until it does not.
//
// A function of the run file and the model: all trainers find the same. Thread: any; pure.

#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dedloc/codec/chooser.h"
#include "dedloc/run/layout.h"
#include "dedloc/run/run_file.h"

namespace dedloc::run {

inline constexpr codec::CodecId codec_of_large_tensors = codec::CodecId::blockwise8;
inline constexpr codec::CodecId codec_of_small_tensors = codec::CodecId::fp16;
inline constexpr codec::CodecId codec_of_buffers = codec::CodecId::fp32;

// The ranges cover the vector in order. One range if all of it travels in one codec and there are
// no buffers; those are the last range.
std::vector<codec::CodecRange> vector_codecs(const AveragingConfig& averaging,
                                             const Layout& layout);

// For people: "adaptive: 23.4 M elements in blockwise8, 0.1 M in fp16, 1.03 bytes an element".
std::string describe_codecs(const AveragingConfig& averaging, const Layout& layout);

}  // namespace dedloc::run
