// Gradients of simulated robust runs: a bowl whose samples each pull elsewhere. Anybody can compute
// anybody's again from the sample numbers, and finds what it should but for the noise of its own
// machine, as unlike hardware does.
//
// Thread: any; pure. The same bits with every compiler.

#pragma once
#include <span>

#include "dedloc/consensus/member_input.h"

namespace dedloc::lab {

// The sum over these samples of that author: parameters - goal, and the sample's own pull.
void add_sample_gradients(std::size_t author,
                          consensus::CounterRange samples,
                          std::span<const float> parameters,
                          std::span<float> sum);

// As this machine rounds: off by `relative` of the sum's length, on each machine in a direction of
// its own.
void add_machine_noise(std::size_t machine,
                       consensus::CounterRange samples,
                       double relative,
                       std::span<float> sum);

}  // namespace dedloc::lab
