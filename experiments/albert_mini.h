// `dedloc-lab albert-mini`: a small ALBERT learns the King James Bible, alone and in a
// collaboration whose peers come and go.
//
// Alone: one learner, one optimizer, batches of exactly the target. Together: four peers of this
// process, each with its own identity, folder, sockets and trainer thread; by global steps one is
// killed and comes back, one leaves in order, a fifth joins, and the host is killed for good. Both
// stop when the loss of masked words on held-out text is at most `loss`; how many samples that took
// is interpolated between measurements.
//
//   loss, loss_alone        masked words, held-out, at the last measurement
//   samples, samples_alone  committed until the loss was reached
//   state_hashes            of each living peer after the last step that all of them applied
//   steps_compared          steps that two peers or more applied; steps_different: of these, those
//                           after which hashes differed
//
// Cost: some 3 minutes of one core alone and 5.5 together (8,400 and 8,500 samples, 311 steps), as
// long by the clock as the machine is slow; 2 GB of memory.
//
// Holds when samples <= 1.1 × samples_alone and no hash differs.
// Needs libtorch and the Debian package bible-kjv. Errors: exit code 9 when it does not hold; 5
// without the data; 6 for the disk.

#pragma once
#include <cstdint>
#include <string>

namespace dedloc::lab {

struct AlbertMiniCommand {
    double loss = 5.6;
    std::uint64_t target = 32;  // samples of a global step
    std::uint64_t micro = 1;    // of one gradient computation together: what is begun when a step
                                // becomes due is finished, so large ones overshoot the target
    std::uint64_t samples_max = 40'000;
    double seconds_max = 1800;  // of each of the two
    bool json = false;
};

int run_albert_mini(const AlbertMiniCommand& command);

}  // namespace dedloc::lab
