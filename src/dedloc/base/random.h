// Seeded randomness with our own distributions, because the standard ones differ between
// libraries and a simulation must repeat bit for bit. Not for secrets: security::secure_random.
//
// Source: xoshiro256** by Blackman and Vigna, seeded through SplitMix64.

#pragma once
#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/time.h"

namespace dedloc::base {

class Random {
  public:
    explicit Random(std::uint64_t seed);

    // An independent stream for a component, named so that adding one does not shift others.
    Random fork(std::string_view name) const;

    std::uint64_t next();
    std::uint64_t below(std::uint64_t bound);                   // uniform in [0, bound), bound > 0
    std::int64_t between(std::int64_t low, std::int64_t high);  // uniform in [low, high]
    double uniform();                                           // [0, 1)
    double uniform(double low, double high);
    bool chance(double probability);
    double exponential(double mean);
    double normal();
    Duration duration(Duration low, Duration high);  // uniform in [low, high]
    Bytes bytes(std::size_t count);

    template <typename T>
    void shuffle(std::vector<T>& items) {
        for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[below(i)]);
    }

  private:
    std::array<std::uint64_t, 4> state_;
    std::uint64_t seed_;
};

// One round of SplitMix64: a cheap, good mixing of 64 bits.
std::uint64_t mix64(std::uint64_t value);

}  // namespace dedloc::base

namespace dedloc {
using base::Random;
}
