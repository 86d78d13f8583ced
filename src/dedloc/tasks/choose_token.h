// Which token (or code of a picture) comes next, by the scores that a model gives to each. No
// libtorch.
//
// The draw is one number of the caller's randomness, laid along the tokens in order of their ids:
// the same scores, options and seed give the same choice on every machine.
//
// Thread: any; pure. Cost: some passes over the scores.

#pragma once
#include <cstdint>
#include <span>

#include "dedloc/base/random.h"

namespace dedloc::tasks {

struct ChoiceOptions {
    std::int64_t top_k = 0;  // among so many of the likeliest; 0: all
    double top_p = 1;        // among the likeliest that together have this probability; 1: all
    double temperature = 1;  // 0: the likeliest
};

// `scores` are logits, at least one.
std::size_t choose_token(std::span<const float> scores,
                         const ChoiceOptions& options,
                         Random& random);

}  // namespace dedloc::tasks
