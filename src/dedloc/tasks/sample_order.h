// Which training sample is number `counter` of a peer: a pure function of (run seed, peer,
// counter).
//
// Each peer walks its own shuffled order of the whole training set, one order an epoch, so that it
// sees every sample once before it sees one twice, peers differ, nobody has to agree with anybody,
// and whoever knows the three numbers can recompute the gradient (docs/robust-runs.md).
//
//   epoch = counter / count; order = Fisher-Yates with Random seeded by the first 8 bytes of
//   sha256("dedloc/sample-order/1" ‖ seed u64 BE ‖ epoch u64 BE ‖ PeerId bytes)
//
// Cost: a shuffle of `count` numbers an epoch (1 ms for 60,000), else a look-up. Thread: one at a
// time.

#pragma once
#include <cstdint>
#include <vector>

#include "dedloc/base/peer_id.h"
#include "dedloc/base/random.h"
#include "dedloc/collab/samples.h"

namespace dedloc::tasks {

class SampleOrder {
  public:
    // count > 0.
    SampleOrder(std::uint64_t seed, PeerId peer, std::uint32_t count);

    std::uint32_t index(std::uint64_t counter);
    std::vector<std::uint32_t> indices(collab::CounterRange range);
    // One fair bit of the sample with this number, for flips and the like.
    bool coin(std::uint64_t counter) const;
    // Randomness of the sample with this number alone, for what needs more than a bit.
    Random random(std::uint64_t counter) const;

  private:
    void shuffle_epoch(std::uint64_t epoch);

    std::uint64_t seed_;
    PeerId peer_;
    std::uint32_t count_;
    std::uint64_t coin_seed_;
    std::uint64_t random_seed_;
    std::uint64_t epoch_ = 0;
    std::vector<std::uint32_t> order_;
};

}  // namespace dedloc::tasks
