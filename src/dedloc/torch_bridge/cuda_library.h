// Loads CUDA's half of libtorch where it is installed and this machine has a card. A program that
// is linked with it starts on no machine whose PyTorch is for the CPU alone, and takes longer.
//
// Thread: any, once or often. Cost: a second or two, where there is a card.

#pragma once

namespace dedloc::torch_bridge {

void load_cuda_library();

}  // namespace dedloc::torch_bridge
