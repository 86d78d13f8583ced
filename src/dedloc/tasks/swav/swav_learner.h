// A SwAV trainer computes this: the model with its loss, its queue and its evaluation, as
// torch_bridge's TorchModel. Internal to the task.
//
// The queue is this trainer's own and private history: it is used from a global step on, and
// emptied when the trainer does not come from the step before (it loaded another state).
//
// Thread: one at a time. Errors: libtorch's exceptions; those of SwavPictures.

#pragma once
#include <memory>

#include "dedloc/tasks/swav/swav_crops.h"
#include "dedloc/tasks/swav/swav_evaluation.h"
#include "dedloc/tasks/swav/swav_loss.h"
#include "dedloc/tasks/swav/swav_models.h"
#include "dedloc/torch_bridge/torch_learner.h"

namespace dedloc::tasks {

struct SwavSetup {
    run::TaskConfig config;
    SwavKeys keys;
    std::uint32_t channels = 3;
    std::shared_ptr<const SwavPictures> pictures{};
};

SwavLossOptions loss_options(const SwavKeys& keys);
torch_bridge::TorchModel swav_torch_model(const SwavSetup& setup);

// Samples of a peer as one batch: large crops are its inputs, small ones lie beside; bytes, crop by
// crop as the loss wants them. Its targets only count the samples.
Result<torch_bridge::TorchBatch> swav_batch(const SwavSetup& setup,
                                            SwavCrops& crops,
                                            collab::CounterRange samples);

// Features of the held-out pictures, the first half as bank. bad_input: `cancelled` (cancelled).
Result<EvaluationHalves> held_out_features(const SwavSetup& setup,
                                           SwavModel& model,
                                           const std::function<bool()>& cancelled);
// Mean loss of `samples` held-out pictures, with crops that are the same every time. The model
// keeps its mode: in training, BatchNorm sees the batch.
Result<double> held_out_loss(const SwavSetup& setup,
                             SwavModel& model,
                             std::uint64_t samples,
                             const std::function<bool()>& cancelled);

}  // namespace dedloc::tasks
