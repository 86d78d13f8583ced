#include "dedloc/text/block_order.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "dedloc/base/check.h"
#include "dedloc/base/random.h"

namespace dedloc::text {

BlockOrder::BlockOrder(std::span<const Block> blocks,
                       double samples_per_byte,
                       std::uint64_t seed,
                       Shard shard)
    : blocks_(blocks), samples_per_byte_(samples_per_byte), seed_(seed), shard_(shard) {
    DEDLOC_CHECK(!blocks_.empty() && samples_per_byte_ > 0 && shard_.index < shard_.count);
    for (std::uint32_t i = 0; i < blocks_.size(); ++i) total_ += slots_of(i);
    shuffle_epoch(0);
}

std::uint64_t BlockOrder::slots_of(std::uint32_t block) const {
    const double samples = std::round(blocks_[block].bytes * samples_per_byte_);
    return std::max<std::uint64_t>(1, static_cast<std::uint64_t>(samples));
}

void BlockOrder::shuffle_epoch(std::uint64_t epoch) {
    order_.resize(blocks_.size());
    std::iota(order_.begin(), order_.end(), 0u);
    Random random(base::mix64(seed_ ^ base::mix64(epoch)));
    random.shuffle(order_);
    if (shard_.count > 1)
        std::stable_partition(order_.begin(), order_.end(), [&](std::uint32_t block) {
            return block % shard_.count == shard_.index;
        });
    before_.resize(order_.size());
    std::uint64_t slots = 0;
    for (std::size_t i = 0; i < order_.size(); ++i) {
        before_[i] = slots;
        slots += slots_of(order_[i]);
    }
    epoch_ = epoch;
}

BlockSlot BlockOrder::at(std::uint64_t counter) {
    const std::uint64_t epoch = counter / total_;
    if (epoch != epoch_) shuffle_epoch(epoch);
    const std::uint64_t rest = counter % total_;
    const auto after = std::upper_bound(before_.begin(), before_.end(), rest);
    const auto place = static_cast<std::size_t>(after - before_.begin()) - 1;
    return {epoch, order_[place], static_cast<std::uint32_t>(rest - before_[place])};
}

}  // namespace dedloc::text
