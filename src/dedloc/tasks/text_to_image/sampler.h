// Draws image codes for captions, one code after the other.
//
// Guidance compares the scores of a code with those that it has without a caption, and goes on in
// that direction: without + guidance (with - without). Above 1 what is drawn shows the caption more
// clearly, and differs less from picture to picture.
//
// The same seed gives the same codes on one machine; on another a rounding may tip a choice.
// Cost: a forward pass of one position a code, with guidance of two. Memory: keys, values and
// inputs of all layers and positions, of as many captions at once as cache_bytes_max allows.
// Source: Ho and Salimans 2207.12598 (guidance without a classifier). Thread: one at a time.

#pragma once
#include <functional>

#include "dedloc/base/random.h"
#include "dedloc/tasks/text_to_image/text_to_image_model.h"

namespace dedloc::tasks {

inline constexpr std::int64_t cache_bytes_max = std::int64_t{1} << 30;  // or those of one caption

struct SamplingOptions {
    std::int64_t top_k = 0;  // only so many of the likeliest codes; 0: all
    double temperature = 1;  // 0: the likeliest code
    double guidance = 1;     // 1: none; others need a model trained with caption_drop
    std::uint64_t seed = 0;
    std::function<bool()> goes_on{};  // asked before each code; null: it does
};

// captions [n, text_length] int64. Returns codes [n, image_length]; [n, 0] when told to end.
torch::Tensor sample_codes(TextToImageModel& model,
                           const torch::Tensor& captions,
                           const SamplingOptions& options);

// How many captions are drawn at once; with guidance half as many.
std::int64_t captions_at_once(const TextToImageConfig& sizes, double guidance = 1);

}  // namespace dedloc::tasks
