#include "dedloc/tasks/text_to_image/sampler.h"

#include <algorithm>
#include <span>
#include <vector>

#include "dedloc/tasks/choose_token.h"

namespace dedloc::tasks {
namespace {

// One code a row of `logits` [n, codes].
torch::Tensor choose(const torch::Tensor& logits, const SamplingOptions& options, Random& random) {
    const torch::Tensor scores = logits.to(torch::kFloat32).contiguous();
    const auto codes = static_cast<std::size_t>(scores.size(1));
    torch::Tensor chosen = torch::empty({scores.size(0), 1}, torch::kInt64);
    auto out = chosen.accessor<std::int64_t, 2>();
    for (std::int64_t row = 0; row < scores.size(0); ++row) {
        const std::span<const float> of_row(scores[row].data_ptr<float>(), codes);
        out[row][0] = static_cast<std::int64_t>(choose_token(
            of_row, {.top_k = options.top_k, .temperature = options.temperature}, random));
    }
    return chosen;
}

// The first half of the rows have captions, the others are the same without.
torch::Tensor guided_logits(const torch::Tensor& logits, double guidance) {
    const auto halves = logits.chunk(2);
    return halves[1] + guidance * (halves[0] - halves[1]);
}

// Codes [n, image_length]; fewer where it was told to end.
torch::Tensor sample_at_once(TextToImageModel& model,
                             const torch::Tensor& captions,
                             const SamplingOptions& options,
                             Random& random) {
    const bool guided = options.guidance != 1;
    const std::int64_t count = captions.size(0);
    // Behind the captions as many empty ones, which draw the same codes.
    const auto read = guided ? torch::cat({captions, torch::zeros_like(captions)}) : captions;
    TextToImageCache cache = model.empty_cache(read.size(0));
    torch::Tensor codes = torch::empty({count, 0}, torch::kInt64);
    while (codes.size(1) < model.config().image_length() &&
           (!options.goes_on || options.goes_on())) {
        const auto seen = guided ? codes.repeat({2, 1}) : codes;
        torch::Tensor logits = model.next_code_logits(read, seen, &cache).cpu();
        if (guided) logits = guided_logits(logits, options.guidance);
        codes = torch::cat({codes, choose(logits, options, random)}, 1);
    }
    return codes;
}

}  // namespace

std::int64_t captions_at_once(const TextToImageConfig& sizes, double guidance) {
    const std::int64_t numbers =
        sizes.layers * sizes.sequence() * (2 * sizes.heads * sizes.head_width + 2 * sizes.width);
    const std::int64_t rows = guidance == 1 ? 1 : 2;
    return std::max<std::int64_t>(
        cache_bytes_max / (rows * static_cast<std::int64_t>(sizeof(float)) * numbers), 1);
}

torch::Tensor sample_codes(TextToImageModel& model,
                           const torch::Tensor& captions,
                           const SamplingOptions& options) {
    Random random(options.seed);
    std::vector<torch::Tensor> all;
    for (const torch::Tensor& some :
         captions.split(captions_at_once(model.config(), options.guidance))) {
        all.push_back(sample_at_once(model, some, options, random));
        if (all.back().size(1) < model.config().image_length())
            return torch::empty({captions.size(0), 0}, torch::kInt64);
    }
    return torch::cat(all);
}

}  // namespace dedloc::tasks
