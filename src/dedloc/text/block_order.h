// In which order a peer walks the blocks of a source, and how many samples each gives.
//
// Every epoch has its own order, drawn from (seed, peer, source, epoch). A block has a fixed number
// of slots, one a sample that it gives as far as that is known without reading it; where a block
// gives fewer, some come twice in an epoch, where it gives more, some stay out until another epoch.
// So sample number n is found without reading what was before it.
//
// Peers draw independently: without asking each other, no rule can make them meet less often (the
// expected overlap of two random sets is least when every block is equally likely). Who does know
// how many peers there will be gives them shards: a peer walks the blocks of its own shard first,
// then the others'.
//
// Cost: a shuffle of all blocks an epoch; 12 bytes a block. Thread: one at a time.

#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "dedloc/text/corpus.h"

namespace dedloc::text {

struct Shard {
    std::uint32_t index = 0;  // < count
    std::uint32_t count = 1;
};

struct BlockSlot {
    std::uint64_t epoch = 0;
    std::uint32_t block = 0;  // in the source's blocks
    std::uint32_t slot = 0;   // of this block
};

class BlockOrder {
  public:
    // samples_per_byte > 0; blocks are not empty and outlive this.
    BlockOrder(std::span<const Block> blocks,
               double samples_per_byte,
               std::uint64_t seed,
               Shard shard);

    std::uint64_t samples_per_epoch() const { return total_; }
    BlockSlot at(std::uint64_t counter);

  private:
    void shuffle_epoch(std::uint64_t epoch);
    std::uint64_t slots_of(std::uint32_t block) const;

    std::span<const Block> blocks_;
    double samples_per_byte_;
    std::uint64_t seed_;
    Shard shard_;
    std::uint64_t total_ = 0;
    std::uint64_t epoch_ = 0;
    std::vector<std::uint32_t> order_;
    std::vector<std::uint64_t> before_;  // slots before order_[i]
};

}  // namespace dedloc::text
