// The loops over elements of the robust rules. Internal to the module.
//
// Callers hold a FloatEnvironmentGuard. Every function gives the same bits on every CPU: lanes are
// independent, products and sums are rounded one by one, and sums have a fixed order of 16 lanes.

#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace dedloc::robust {

// Sums of one pair of vectors: element i is added to lane i % 16.
inline constexpr std::size_t sum_lanes = 16;

// Comparisons that sort any `count` numbers, for Batcher's merge exchange (Knuth, TAOCP 3,
// algorithm 5.2.2M): (i, j) puts the smaller one at i.
std::vector<std::pair<std::uint16_t, std::uint16_t>> sorting_network(std::size_t count);

struct MedianRule {
    std::vector<std::pair<std::uint16_t, std::uint16_t>> network;
    std::vector<float> weights;  // one a member
    float half = 0;              // of all weights
    bool equal = false;          // all weights are
};

// out[i]: the weighted lower median of rows[member * stride + i].
void weighted_medians(
    const MedianRule& rule, const float* rows, std::size_t stride, std::size_t count, float* out);

// Inner products of y = row - base for each pair of rows, row by row of the lower triangle:
// (0,0) (1,0) (1,1) (2,0) …, 16 lanes each, added to `lanes`.
void add_products(const float* rows,
                  std::size_t stride,
                  std::size_t members,
                  const float* base,
                  std::size_t count,
                  double* lanes);

// base[i] += Σ factors[m] × (rows[m][i] - base[i]), summed in double in the order of the rows and
// rounded once.
void add_combination(const float* rows,
                     std::size_t stride,
                     std::span<const double> factors,
                     std::size_t count,
                     float* base);

// For 8 rows of random signs: sums[k] += Σ ±x[i], in double. Elements 64 b to 64 b + 63 have the
// bits of SplitMix64(keys[k] + (place + 64 b) × golden ratio), from the lowest on; a set bit is a
// minus. `squares` += Σ (x[i] - base[i])²; no base: Σ x[i]².
void add_projections(const float* x,
                     const float* base,
                     const std::uint64_t* keys,
                     std::uint64_t place,
                     std::size_t count,
                     double* sums,
                     double* squares);

// lane j += lane j + 8, then + 4, + 2, + 1.
double joined_lanes(const double* lanes);

}  // namespace dedloc::robust
