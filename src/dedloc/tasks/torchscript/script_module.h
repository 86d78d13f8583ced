// A TorchScript model as a torch::nn::Module: the same tensors under the same names, so that it is
// trained, measured and written like any other model here.
//
// forward(inputs, targets) returns (sum of the losses, how many answers are right); or
// forward(inputs) returns logits, whose loss is the cross entropy with whole numbers as targets.
// It is interpreted as it stands: fused or rewritten operators would round otherwise than those of
// a model in C++.
//
// Thread: one at a time for each module. Memory: the parameters. Errors: bad_input, unsupported.

#pragma once
#include <memory>

#include "dedloc/base/bytes.h"
#include "dedloc/torch_bridge/torch_learner.h"

namespace dedloc::tasks {

// A fresh model with the file's parameters. The file has been looked at by check_script_archive.
Result<torch_bridge::TorchModel> load_script_model(ByteView file);
// With these parameters, as libtorch writes it; any PyTorch reads it.
Result<Bytes> write_script_model(const torch_bridge::TorchModel& model);

}  // namespace dedloc::tasks
