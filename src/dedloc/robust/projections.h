// Random ±1 projections of a long vector, drawn by 32 bytes that nobody knew before everybody had
// committed: numbers by which peers compare vectors without sending them. The mean square of a
// projection is the vector's squared length, whatever the vector is.
//
// Signs are a function of (seed, projection, place in the whole vector), so that anyone may begin
// anywhere. They need not be unpredictable, only drawn late: SplitMix64, not a cipher.
//
// Cost:   projections_bench.cpp. Thread: any. The same bits on every CPU.

#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "dedloc/base/bytes.h"

namespace dedloc::robust {

inline constexpr std::size_t projections_count = 8;
using Projected = std::array<double, projections_count>;

class Projections {
  public:
    explicit Projections(const Digest& seed);

    struct Sums {
        Projected projected{};        // ±x
        double squared_distance = 0;  // |x - base|²
    };
    // Adds those of elements [offset, offset + x.size()) of the vector. `offset` may be anything:
    // signs of a part begin with a word of its own, 64 elements each. An empty base is zero.
    void add(std::uint64_t offset,
             std::span<const float> x,
             std::span<const float> base,
             Sums& sums) const;

  private:
    std::array<std::uint64_t, projections_count> keys_{};
};

// The length of a vector as its projections tell it: the root of their mean square.
double estimated_length(const Projected& projected);

}  // namespace dedloc::robust
