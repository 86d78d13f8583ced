// `dedloc-lab equivalence`: is the collaboration the same as training alone?
//
// Four peers in this process, each with its own identity, host, sockets and collaboration, train
// the demo's network for some steps; membership and every peer's micro-batches are fixed. Then
//
//   bit_identical  one process plays the same contributions in turn (sums in the plan's order, same
//                  codec, same optimizer): the state hash after every step and the digest of every
//                  averaged part must be the collaboration's.
//   relative       ‖a - b‖ / ‖b‖ of the parameters after the last step, a: collaboration, b: a
//   plain
//                  torch::optim loop (LAMB: a reference in double precision written here) on the
//                  same micro-batches as one large batch.
//
//   relative_torch the same distance between plain libtorch computing in micro-batches and in one
//                  large batch: what the order of sums alone does. Where training is chaotic (SGD
//                  at rates from 0.05 on), both grow together, by half a step.
//
// Identities, and with them everybody's samples, are the same every time.
//
// Bounds: sgd 3e-6 with fp32, 1e-3 with fp16; adamw and lamb are reported.
// Cost: some 2 s of computing a case and CPU. Needs libtorch and the demo's data.
// Errors: exit code 9 when a bound is missed; 5 without the data; 6 for the disk.

#pragma once
#include <string>

namespace dedloc::lab {

struct EquivalenceCommand {
    int steps = 20;
    int peers = 4;
    double rate = 0.03;  // SGD's, at the end of the warm-up of 25 steps
    std::string data_directory;
    bool json = false;
};

int run_equivalence(const EquivalenceCommand& command);

}  // namespace dedloc::lab
