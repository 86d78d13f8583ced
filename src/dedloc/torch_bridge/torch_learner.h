// TorchLearner: a libtorch model, its batches and its loss, as train::Model and train::Samples.
//
// The loss is a SUM over the samples of a batch: gradients of micro-batches then add up, whatever
// their sizes. They accumulate in sums of our own on the device; take_sum() is the only copy from
// there. A micro-batch whose loss or gradient is not finite, or whose mean gradient is beyond
// limit_norm(), leaves no trace (GradientReport::finite).
//
// In mixed precision the model's outputs may be bf16: a loss makes them fp32 before it adds up.
// In fp16 the loss is scaled before its backward pass; where a gradient then is not finite, the
// same samples are computed again at half the scale, so that none is lost (loss_scale.h).
// Evaluation is fp32 always.
//
// Cost: what the model costs, one pass over the gradients a micro-batch to look whether they are
// finite and one to add them, plus two copies of the parameters a global step.
// Thread: one at a time. Errors: unsupported for fp16 on a CPU; cannot_compute for libtorch's
// exceptions (out of memory, shapes).

#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dedloc/torch_bridge/flat_module.h"
#include "dedloc/torch_bridge/libtorch.h"
#include "dedloc/train/model.h"

namespace dedloc::torch_bridge {

struct TorchBatch {
    torch::Tensor inputs;               // [samples, …]
    torch::Tensor targets;              // [samples, …]
    std::vector<torch::Tensor> more{};  // what else the model wants; stays where it is
};

struct TorchLoss {
    torch::Tensor sum;      // scalar: summed over the samples
    torch::Tensor correct;  // scalar, how many answers are right; undefined: the task has none
};

// libtorch's modules have no common forward(), so a model is the module and a way to call it:
// either `forward`, followed by the task's loss, or both in one.
struct TorchModel {
    std::shared_ptr<torch::nn::Module> module{};
    std::function<torch::Tensor(const torch::Tensor& inputs)> forward{};
    std::function<TorchLoss(const TorchBatch& batch)> loss{};
    // Samples::at_step, for models that compute differently from step to step. May be null.
    std::function<void(std::uint64_t global_step)> at_step{};
    // In place of a pass over held-out batches: the module is in evaluation mode, nothing keeps
    // gradients, and it should end soon once `cancelled` says so. May be null.
    std::function<Result<collab::Evaluation>(const std::function<bool()>& cancelled)> evaluate{};
};

inline constexpr std::uint64_t held_out_batch_max = 500;

using TorchBatches = std::function<Result<TorchBatch>(collab::CounterRange)>;

// The parts of a learner, as a task gives them.
struct TorchParts {
    // A fresh model with random parameters (only the host's are used).
    std::function<TorchModel()> make_model;
    // Samples of this peer's sequence; on any device.
    TorchBatches train_batch;
    // The same of another peer's; empty: nobody can compute its gradients again.
    std::function<Result<TorchBatches>(const PeerId&)> batches_of{};
    PeerId self{};  // whose train_batch is; needed beside batches_of
    // Samples [begin, end) of the held-out data, of which there are held_out_count.
    std::function<Result<TorchBatch>(collab::CounterRange)> held_out_batch;
    std::uint64_t held_out_count = 0;
    // Not used where the model has its own.
    std::function<TorchLoss(const torch::Tensor& outputs, const torch::Tensor& targets)> loss;
    std::uint64_t held_out_batch_samples_max = held_out_batch_max;
    std::string device = "cpu";  // as choose_device() returns it
    bool bf16 = false;           // training passes: mixed precision (autocast.h)
    bool fp16 = false;           // the same in fp16, with a loss scale; on GPUs only
    void set_precision(std::string_view word) {  // the run file's: task.precision
        bf16 = word == "bf16";
        fp16 = word == "fp16";
    }
    double loss_scale = 0;  // to begin with; 0: 1, with fp16 LossScale::start
    // Shapes what groups of parameters have beyond names and sizes: frozen, rows of unit length.
    // May be null.
    std::function<void(std::vector<optim::ParameterGroup>&)> shape_groups{};
};

Result<std::unique_ptr<train::SampledModel>> make_torch_learner(TorchParts parts);

// Sum-reduced cross entropy and the count of right answers.
TorchLoss classification_loss(const torch::Tensor& outputs, const torch::Tensor& targets);

}  // namespace dedloc::torch_bridge
