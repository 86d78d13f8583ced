// The former place of the front door for libtorch loops, kept for programs that name it. New ones
// include "dedloc/torch_bridge/collaborative_optimizer.h" (module torch_bridge).

#pragma once
#include <torch/torch.h>  // programs had all of it from here

#include "dedloc/torch_bridge/collaborative_optimizer.h"

namespace dedloc::train {

using torch_bridge::CollaborativeOptimizer;
using torch_bridge::join;
using torch_bridge::JoinOptions;
using torch_bridge::Session;

}  // namespace dedloc::train
