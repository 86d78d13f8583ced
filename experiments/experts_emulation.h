// Learning@home's convergence experiment, in virtual time: trainers share a trunk and apply stale
// gradients to it; experts live at servers and update themselves; every call crosses a slow network
// and some fail there.
//
//   logits = head(mixture_4(… mixture_1(stem(pixels))))
//
// The trunk (stem, gates, head) is one flat vector under a deterministic AdamW; gradients are by
// hand. Data: given by the caller. Source: Learning@home §4.2, reduced in width.
// Thread: the caller's. Time: real arithmetic, virtual waiting.

#pragma once
#include <cstdint>
#include <vector>

#include "dedloc/base/result.h"
#include "dedloc/base/time.h"

namespace dedloc::lab {

struct EmulationData {
    std::size_t pixels = 0;
    std::size_t classes = 10;
    std::vector<float> train;  // rows of pixels
    std::vector<std::uint8_t> train_labels;
    std::vector<float> test;
    std::vector<std::uint8_t> test_labels;
};

struct EmulationOptions {
    std::size_t layers = 4;
    std::vector<std::uint32_t> grid{8, 8};
    std::size_t best = 4;
    std::size_t width = 32;
    std::size_t hidden = 64;
    std::size_t servers = 8;
    std::size_t trainers = 16;
    std::size_t batch = 32;
    std::size_t steps = 2400;  // of all trainers together
    Duration round_trip = std::chrono::milliseconds(1000);
    double failing = 0;  // part of the calls that servers fail
    std::uint64_t seed = 1;
};

struct EmulationResult {
    double accuracy = 0;
    double failed_calls = 0;  // part of all
    double steps_skipped = 0;
    double virtual_s = 0;
    double longest_pass_s = 0;
};

EmulationResult emulate(const EmulationData& data, const EmulationOptions& options);

// Fashion-MNIST in 14 x 14 pixels: 20,000 images to learn from, 4,000 to test. not_found: no data.
Result<EmulationData> small_fashion_mnist();

}  // namespace dedloc::lab
