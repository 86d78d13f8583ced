#include "dedloc/tasks/text_to_image/token_noise.h"

namespace dedloc::tasks {

void TokenNoise::spoil(const SampleOrder& order,
                       collab::CounterRange samples,
                       torch::Tensor& captions,
                       torch::Tensor& codes) const {
    if (sizes_.caption_drop == 0 && sizes_.code_noise == 0) return;
    auto words = captions.accessor<std::int64_t, 2>();
    auto read = codes.accessor<std::int64_t, 2>();
    const auto vocabulary = static_cast<std::uint64_t>(sizes_.image_vocabulary);
    for (std::uint64_t sample = samples.begin; sample < samples.end; ++sample) {
        const auto row = static_cast<std::int64_t>(sample - samples.begin);
        Random random = order.random(sample);
        if (random.chance(sizes_.caption_drop))
            for (std::int64_t i = 0; i < words.size(1); ++i) words[row][i] = 0;
        if (sizes_.code_noise == 0) continue;
        for (std::int64_t i = 0; i < read.size(1); ++i)
            if (random.chance(sizes_.code_noise))
                read[row][i] = static_cast<std::int64_t>(random.below(vocabulary));
    }
}

}  // namespace dedloc::tasks
