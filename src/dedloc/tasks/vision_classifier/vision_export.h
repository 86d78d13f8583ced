// A vision classifier for other programs.
//
//   model.safetensors  parameters and BatchNorm's statistics, under the names of an nn.Sequential
//                      (module_weights.h)
//   config.json        architecture, layer by layer; how images become numbers; names of classes
//   model.pt           TorchScript: forward(images [n, 1, 28, 28], normalised) gives scores [n, 10]
//
// TorchScript is compiled from source text: libtorch's C++ modules cannot be traced or scripted.
//
// Only for files that see libtorch. Errors: cannot_compute, what libtorch says.

#pragma once
#include <string>
#include <torch/nn.h>

#include "dedloc/base/bytes.h"
#include "dedloc/base/result.h"

namespace dedloc::tasks {

std::string vision_config_json(const torch::nn::Module& model, const std::string& name);
Result<Bytes> vision_torchscript(const torch::nn::Module& model);

}  // namespace dedloc::tasks
