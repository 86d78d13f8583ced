// The vision classifier: Fashion-MNIST images, ten classes, three small networks.
//
// Models (all take [n, 1, 28, 28], normalised by the training set's mean and deviation):
//   small_cnn  conv 3×3/2 → 16, conv 3×3/2 → 32, dense 64, dense 10   105,866 parameters
//   mlp        784 → 64 → 10                                           50,890
//   cnn_bn     small_cnn with BatchNorm after both convolutions       105,962 and 96 buffers
//
// Exported: model.safetensors, with the names that PyTorch gives in an nn.Sequential of these
// layers (ReLU and Flatten count; "dense 64" is a 7×7 convolution, vision_models.h).
//
// Errors and threads: training_task.h.

#pragma once
#include "dedloc/tasks/training_task.h"

namespace dedloc::tasks {

Result<std::shared_ptr<const TrainingTask>> make_vision_classifier(const run::TaskConfig& config,
                                                                   const TaskOptions& options);

}  // namespace dedloc::tasks
