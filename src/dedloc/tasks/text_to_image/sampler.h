// Draws image codes for captions, one code after the other.
//
// The same seed gives the same codes on one machine; on another a rounding may tip a choice.
// Cost: a forward pass of one position a code. Memory: keys, values and inputs of all layers and
// positions, of as many captions at once as cache_bytes_max allows. Thread: one at a time.

#pragma once
#include <functional>

#include "dedloc/base/random.h"
#include "dedloc/tasks/text_to_image/text_to_image_model.h"

namespace dedloc::tasks {

inline constexpr std::int64_t cache_bytes_max = std::int64_t{1} << 30;  // or those of one caption

struct SamplingOptions {
    std::int64_t top_k = 0;  // only so many of the likeliest codes; 0: all
    double temperature = 1;  // 0: the likeliest code
    std::uint64_t seed = 0;
    std::function<bool()> goes_on{};  // asked before each code; null: it does
};

// captions [n, text_length] int64. Returns codes [n, image_length]; [n, 0] when told to end.
torch::Tensor sample_codes(TextToImageModel& model,
                           const torch::Tensor& captions,
                           const SamplingOptions& options);

// How many captions are drawn at once.
std::int64_t captions_at_once(const TextToImageConfig& sizes);

}  // namespace dedloc::tasks
