// `dedloc-lab local`: the same training with local updates and without, in virtual time, on the
// real engine, with a real model: four trainers, Fashion-MNIST, the demo's small CNN, lines on
// which the bytes of one round take longer than computing an inner batch. Three runs see as many
// samples:
//
//   sync        a round after every inner batch of each peer
//   local       a round after `inner_steps` of them, inner AdamW, outer SGD with Nesterov's
//   momentum rare        as many rounds as local, without steps between them: one large batch for
//   each
//
//   rounds, bytes, seconds   of a run: bytes delivered to all, virtual time
//   loss, accuracy           of held-out data at the end
//
// Errors: exit code 9 if local's loss is not below rare's or too far above sync's, its bytes are
// not those of its fewer rounds, or two replicas differ; 5 without the data (Debian package
// dataset-fashion-mnist).

#pragma once
#include <cstdint>
#include <string>

namespace dedloc::lab {

struct LocalCommand {
    std::uint64_t rounds = 60;  // with local updates
    std::uint64_t inner_steps = 8;
    double exchange_over_batch = 2;  // a round's bytes over computing an inner batch
    double rate = 0.003;             // peak of AdamW's learning rate
    double outer_rate = 0.7;
    std::string data_directory;
    std::uint64_t seed = 1;
    bool json = false;
};

int run_local(const LocalCommand& command);

}  // namespace dedloc::lab
