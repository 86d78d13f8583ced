#include "dedloc/data/homes.h"

#include <algorithm>

#include "dedloc/base/random.h"

namespace dedloc::data {
namespace {

std::uint64_t seed_of_home(const PeerId& peer) {
    std::uint64_t seed = 0;
    for (const std::uint8_t byte : peer.bytes()) seed = base::mix64(seed ^ byte);
    return seed;
}

}  // namespace

PieceHomes::PieceHomes(const PeerId& self) : self_(seed_of_home(self)) {}

void PieceHomes::set_others(const std::vector<PeerId>& others) {
    std::vector<std::uint64_t> seeds;
    for (const PeerId& peer : others) seeds.push_back(seed_of_home(peer));
    const std::lock_guard lock(mutex_);
    others_ = std::move(seeds);
}

bool PieceHomes::is_own(std::uint64_t piece) const {
    const std::uint64_t own = base::mix64(self_ ^ base::mix64(piece));
    const std::lock_guard lock(mutex_);
    return std::ranges::all_of(others_, [&](std::uint64_t other) {
        return base::mix64(other ^ base::mix64(piece)) < own;
    });
}

}  // namespace dedloc::data
