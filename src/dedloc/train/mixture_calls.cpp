#include "dedloc/train/mixture_calls.h"

#include <algorithm>

namespace dedloc::train {

Result<MixtureCalls::Passed> NoExperts::forward(experts::Tensor inputs,
                                                std::vector<experts::GridScores>) {
    Passed passed;
    passed.lost.assign(inputs.rows(), false);
    passed.outputs = std::move(inputs);
    std::fill(passed.outputs.values.begin(), passed.outputs.values.end(), 0.0f);
    return passed;
}

Result<MixtureCalls::Gradients> NoExperts::backward(Passed passed, experts::Tensor) {
    experts::GridScores none;
    for (const std::uint32_t size : grid_.sizes) none.emplace_back(size, 0.0f);
    Gradients gradients;
    gradients.scores.assign(passed.lost.size(), none);
    gradients.inputs = std::move(passed.outputs);
    return gradients;
}

}  // namespace dedloc::train
