// The vision classifier's networks and its images as tensors; only for files that see libtorch.
//
// The dense layer on the 7 × 7 feature map is written as a 7 × 7 convolution: the same numbers and
// parameters, but libtorch then uses oneDNN, where a plain Linear falls to the reference BLAS that
// Debian installs first (measured forward and back, batch 256: 70 ms of processor time against 7
// ms).

#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dedloc/tasks/fashion_mnist.h"
#include "dedloc/torch_bridge/torch_learner.h"

namespace dedloc::tasks {

// Figures of the 60,000 training images, as fractions of 255.
inline constexpr float pixel_mean = 0.2860f;
inline constexpr float pixel_deviation = 0.3530f;

std::vector<std::string> vision_models();
// Parameters are random, from the seed. `name` is one of the above.
torch_bridge::TorchModel make_vision_model(const std::string& name, std::uint64_t seed);

// [n, 1, 28, 28] fp32, normalised, and [n] int64, of the images with these indices. flip[i] != 0
// mirrors image i; empty: none.
torch_bridge::TorchBatch image_batch(const LabelledImages& images,
                                     const std::vector<std::uint32_t>& indices,
                                     const std::vector<std::uint8_t>& flip);

}  // namespace dedloc::tasks
