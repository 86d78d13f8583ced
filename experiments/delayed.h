// `dedloc-lab delayed`: the same training with and without the delayed update, in virtual time, on
// the real engine, with a real model: four trainers, Fashion-MNIST, the demo's small CNN, lines on
// which one round takes about as long as computing one batch.
//
//   compute_share        of the trainers' time spent in gradients with the delayed update, and
//                        without (sync_compute_share)
//   round_over_batch     a round's time over the time of computing one batch, without
//   loss, sync_loss      of held-out data after the same number of samples
//   plain_loss…          the same in one process without any collaboration, with fresh gradients
//                        and with gradients that are one step old (--plain)
//
// Errors: exit code 9 if the share is below 0.95, the loss more than 2 % above, or two replicas
// differ; 5 without the data (Debian package dataset-fashion-mnist).

#pragma once
#include <cstdint>
#include <string>

namespace dedloc::lab {

struct DelayedCommand {
    std::uint64_t steps = 2400;
    double exchange_over_batch = 0.7;  // of a round's time the bytes alone
    double rate = 0.0005;              // the learning rate's peak
    bool plain = false;                // also a loop without collaboration
    std::string data_directory;
    std::uint64_t seed = 1;
    bool json = false;
};

int run_delayed(const DelayedCommand& command);

}  // namespace dedloc::lab
