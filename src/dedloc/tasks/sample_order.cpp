#include "dedloc/tasks/sample_order.h"

#include <numeric>

#include "dedloc/base/check.h"
#include "dedloc/security/hash.h"

namespace dedloc::tasks {

namespace {

std::uint64_t seed_of(std::string_view purpose,
                      std::uint64_t seed,
                      std::uint64_t epoch,
                      const PeerId& peer) {
    Bytes numbers;
    base::put_u64_be(numbers, seed);
    base::put_u64_be(numbers, epoch);
    security::Sha256 hash;
    const Digest digest = hash.update(purpose).update(numbers).update(peer.bytes()).finish();
    std::uint64_t value = 0;
    for (int i = 0; i < 8; ++i) value = (value << 8) | digest.bytes[static_cast<std::size_t>(i)];
    return value;
}

}  // namespace

SampleOrder::SampleOrder(std::uint64_t seed, PeerId peer, std::uint32_t count)
    : seed_(seed), peer_(std::move(peer)), count_(count) {
    DEDLOC_CHECK(count_ > 0);
    coin_seed_ = seed_of("dedloc/sample-coin/1", seed_, 0, peer_);
    random_seed_ = seed_of("dedloc/sample-random/1", seed_, 0, peer_);
    shuffle_epoch(0);
}

std::uint32_t SampleOrder::index(std::uint64_t counter) {
    const std::uint64_t epoch = counter / count_;
    if (epoch != epoch_) shuffle_epoch(epoch);
    return order_[counter % count_];
}

std::vector<std::uint32_t> SampleOrder::indices(collab::CounterRange range) {
    std::vector<std::uint32_t> result;
    result.reserve(range.size());
    for (std::uint64_t counter = range.begin; counter < range.end; ++counter) {
        result.push_back(index(counter));
    }
    return result;
}

bool SampleOrder::coin(std::uint64_t counter) const {
    return (base::mix64(coin_seed_ ^ base::mix64(counter)) & 1) != 0;
}

Random SampleOrder::random(std::uint64_t counter) const {
    return Random(base::mix64(random_seed_ ^ base::mix64(counter)));
}

void SampleOrder::shuffle_epoch(std::uint64_t epoch) {
    order_.resize(count_);
    std::iota(order_.begin(), order_.end(), 0u);
    Random random(seed_of("dedloc/sample-order/1", seed_, epoch, peer_));
    random.shuffle(order_);
    epoch_ = epoch;
}

}  // namespace dedloc::tasks
