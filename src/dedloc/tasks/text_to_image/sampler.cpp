#include "dedloc/tasks/text_to_image/sampler.h"

namespace dedloc::tasks {
namespace {

// One code a row of `logits` [n, codes].
torch::Tensor choose(const torch::Tensor& logits, const SamplingOptions& options, Random& random) {
    if (options.temperature <= 0) return logits.argmax(1, true);
    torch::Tensor scores = logits.to(torch::kFloat64) / options.temperature;
    if (options.top_k > 0 && options.top_k < scores.size(1)) {
        const auto least = std::get<0>(scores.topk(options.top_k, 1)).slice(1, -1);
        scores = scores.masked_fill(scores < least, -std::numeric_limits<double>::infinity());
    }
    const auto reached = torch::softmax(scores, 1).cumsum(1).contiguous();
    torch::Tensor chosen = torch::empty({reached.size(0), 1}, torch::kInt64);
    const auto sums = reached.accessor<double, 2>();
    auto out = chosen.accessor<std::int64_t, 2>();
    for (std::int64_t row = 0; row < reached.size(0); ++row) {
        const double mark = random.uniform() * sums[row][reached.size(1) - 1];
        std::int64_t code = 0;
        while (code + 1 < reached.size(1) && sums[row][code] <= mark) ++code;
        out[row][0] = code;
    }
    return chosen;
}

}  // namespace

torch::Tensor sample_codes(TextToImageModel& model,
                           const torch::Tensor& captions,
                           const SamplingOptions& options) {
    Random random(options.seed);
    torch::Tensor codes = torch::empty({captions.size(0), 0}, torch::kInt64);
    while (codes.size(1) < model.config().image_length())
        codes = torch::cat(
            {codes, choose(model.next_code_logits(captions, codes).cpu(), options, random)}, 1);
    return codes;
}

}  // namespace dedloc::tasks
