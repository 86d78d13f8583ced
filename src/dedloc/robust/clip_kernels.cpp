// Compiled once for each CPU target, chosen at run time. Formulas are written once, over a vector
// type; what does not fill a vector goes through vectors of one lane.

#include "dedloc/robust/clip_kernels.h"

#include <algorithm>
#include <bit>

// Highway includes this file again for every target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dedloc/robust/clip_kernels.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
// (a line between, so that the formatter keeps the order)
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace dedloc::robust::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using Full = hn::CappedTag<float, 16>;
using One = hn::CappedTag<float, 1>;

constexpr std::size_t members_max = 256;
constexpr std::size_t lanes_max = 16;

// ---- medians ------------------------------------------------------------------------------------

// Sorts each lane's column of values; the smaller one goes to i. By comparisons, as minimum and
// maximum treat zeros of both signs differently from CPU to CPU.
template <typename D>
HWY_INLINE void sort_columns(D d, const MedianRule& rule, float* HWY_RESTRICT values) {
    const std::size_t lanes = hn::Lanes(d);
    for (const auto& [i, j] : rule.network) {
        const auto a = hn::Load(d, values + i * lanes);
        const auto b = hn::Load(d, values + j * lanes);
        const auto swap = hn::Gt(a, b);
        hn::Store(hn::IfThenElse(swap, b, a), d, values + i * lanes);
        hn::Store(hn::IfThenElse(swap, a, b), d, values + j * lanes);
    }
}

template <typename D>
HWY_INLINE void sort_columns(D d,
                             const MedianRule& rule,
                             float* HWY_RESTRICT values,
                             float* HWY_RESTRICT weights) {
    const std::size_t lanes = hn::Lanes(d);
    for (const auto& [i, j] : rule.network) {
        const auto a = hn::Load(d, values + i * lanes);
        const auto b = hn::Load(d, values + j * lanes);
        const auto of_a = hn::Load(d, weights + i * lanes);
        const auto of_b = hn::Load(d, weights + j * lanes);
        const auto swap = hn::Gt(a, b);
        hn::Store(hn::IfThenElse(swap, b, a), d, values + i * lanes);
        hn::Store(hn::IfThenElse(swap, a, b), d, values + j * lanes);
        hn::Store(hn::IfThenElse(swap, of_b, of_a), d, weights + i * lanes);
        hn::Store(hn::IfThenElse(swap, of_a, of_b), d, weights + j * lanes);
    }
}

// The first value in order up to which half of the weights lie.
template <typename D>
HWY_INLINE void pick_median(D d,
                            const MedianRule& rule,
                            const float* HWY_RESTRICT values,
                            const float* HWY_RESTRICT weights,
                            float* HWY_RESTRICT out) {
    const std::size_t lanes = hn::Lanes(d);
    const std::size_t members = rule.weights.size();
    auto found = hn::Load(d, values + (members - 1) * lanes);
    auto above = hn::Zero(d);  // weights from the largest value down to the one after `found`
    const auto all = hn::Set(d, rule.half + rule.half);
    const auto half = hn::Set(d, rule.half);
    for (std::size_t k = members - 1; k > 0; --k) {
        above = hn::Add(above, hn::Load(d, weights + k * lanes));
        const auto still = hn::Ge(hn::Sub(all, above), half);
        found = hn::IfThenElse(still, hn::Load(d, values + (k - 1) * lanes), found);
    }
    hn::StoreU(found, d, out);
}

template <typename D>
HWY_INLINE void medians_at(D d,
                           const MedianRule& rule,
                           const float* HWY_RESTRICT rows,
                           std::size_t stride,
                           float* HWY_RESTRICT out) {
    HWY_ALIGN float values[members_max * lanes_max];
    const std::size_t lanes = hn::Lanes(d);
    const std::size_t members = rule.weights.size();
    for (std::size_t m = 0; m < members; ++m)
        hn::Store(hn::LoadU(d, rows + m * stride), d, values + m * lanes);
    if (rule.equal) {
        sort_columns(d, rule, values);
        hn::StoreU(hn::Load(d, values + (members - 1) / 2 * lanes), d, out);
        return;
    }
    HWY_ALIGN float weights[members_max * lanes_max];
    for (std::size_t m = 0; m < members; ++m)
        hn::Store(hn::Set(d, rule.weights[m]), d, weights + m * lanes);
    sort_columns(d, rule, values, weights);
    pick_median(d, rule, values, weights, out);
}

HWY_NOINLINE void medians(
    const MedianRule& rule, const float* rows, std::size_t stride, std::size_t count, float* out) {
    const std::size_t lanes = hn::Lanes(Full());
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes) medians_at(Full(), rule, rows + i, stride, out + i);
    for (; i < count; ++i) medians_at(One(), rule, rows + i, stride, out + i);
}

// ---- inner products -----------------------------------------------------------------------------

// Differences of this many elements of all rows stay in the first-level cache.
constexpr std::size_t block_elements = 64;
using Block = double[block_elements];

// y = x - base in double; zero beyond `count`.
HWY_INLINE void subtract(const float* HWY_RESTRICT x,
                         const float* HWY_RESTRICT base,
                         std::size_t count,
                         double* HWY_RESTRICT y) {
    const hn::CappedTag<double, 8> d64;
    const hn::Rebind<float, decltype(d64)> d32;
    const std::size_t lanes = hn::Lanes(d64);
    std::size_t i = 0;
    for (; i + lanes <= count; i += lanes) {
        const auto a = hn::PromoteTo(d64, hn::LoadU(d32, x + i));
        const auto b = hn::PromoteTo(d64, hn::LoadU(d32, base + i));
        hn::Store(hn::Sub(a, b), d64, y + i);
    }
    for (; i < count; ++i) y[i] = static_cast<double>(x[i]) - static_cast<double>(base[i]);
    for (; i < block_elements; ++i) y[i] = 0;
}

HWY_INLINE void add_pair(const double* HWY_RESTRICT a,
                         const double* HWY_RESTRICT b,
                         double* HWY_RESTRICT sums) {
    const hn::CappedTag<double, 8> d;
    const std::size_t lanes = hn::Lanes(d);
    for (std::size_t lane = 0; lane < sum_lanes; lane += lanes) {
        auto sum = hn::LoadU(d, sums + lane);
        for (std::size_t i = lane; i < block_elements; i += sum_lanes)
            sum = hn::Add(sum, hn::Mul(hn::Load(d, a + i), hn::Load(d, b + i)));
        hn::StoreU(sum, d, sums + lane);
    }
}

HWY_NOINLINE void products(const float* rows,
                           std::size_t stride,
                           std::size_t members,
                           const float* base,
                           std::size_t count,
                           double* lanes) {
    HWY_ALIGN double y[members_max][block_elements];
    for (std::size_t first = 0; first < count; first += block_elements) {
        const std::size_t here = std::min(block_elements, count - first);
        for (std::size_t m = 0; m < members; ++m)
            subtract(rows + m * stride + first, base + first, here, y[m]);
        double* sums = lanes;
        for (std::size_t a = 0; a < members; ++a)
            for (std::size_t b = 0; b <= a; ++b, sums += sum_lanes) add_pair(y[a], y[b], sums);
    }
}

HWY_NOINLINE void combine(const float* rows,
                          std::size_t stride,
                          std::span<const double> factors,
                          std::size_t count,
                          float* base) {
    HWY_ALIGN double sum[block_elements];
    HWY_ALIGN double y[block_elements];
    const hn::CappedTag<double, 8> d;
    const std::size_t lanes = hn::Lanes(d);
    for (std::size_t first = 0; first < count; first += block_elements) {
        const std::size_t here = std::min(block_elements, count - first);
        std::fill(sum, sum + block_elements, 0.0);
        for (std::size_t m = 0; m < factors.size(); ++m) {
            subtract(rows + m * stride + first, base + first, here, y);
            const auto factor = hn::Set(d, factors[m]);
            for (std::size_t i = 0; i < block_elements; i += lanes) {
                const auto more = hn::Mul(hn::Load(d, y + i), factor);
                hn::Store(hn::Add(hn::Load(d, sum + i), more), d, sum + i);
            }
        }
        for (std::size_t i = 0; i < here; ++i)
            base[first + i] = static_cast<float>(static_cast<double>(base[first + i]) + sum[i]);
    }
}

// ---- projections --------------------------------------------------------------------------------

constexpr std::size_t projections_at_once = 8;

// SplitMix64, as base::mix64 has it, for all projections at once.
HWY_INLINE void make_words(const std::uint64_t* HWY_RESTRICT keys,
                           std::uint64_t place,
                           std::uint64_t* HWY_RESTRICT words) {
    constexpr std::uint64_t golden = 0x9e3779b97f4a7c15u;
    for (std::size_t k = 0; k < projections_at_once; ++k) {
        std::uint64_t value = keys[k] + place * golden + golden;
        value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9u;
        value = (value ^ (value >> 27)) * 0x94d049bb133111ebu;
        words[k] = value ^ (value >> 31);
    }
}

static_assert(std::endian::native == std::endian::little, "masks are read from words as they lie");

// Sums in each lane those of 64 elements whose bit is set. Floats are exact enough for four.
template <typename D>
HWY_INLINE hn::VFromD<D> picked_sum(D d, const float* HWY_RESTRICT x, std::uint64_t word) {
    auto sum = hn::Zero(d);
    for (std::size_t i = 0; i < block_elements; i += sum_lanes) {
        const std::uint64_t bits = word >> i;
        const auto mask = hn::LoadMaskBits(d, reinterpret_cast<const std::uint8_t*>(&bits));
        const auto here = hn::IfThenElseZero(mask, hn::LoadU(d, x + i));
        sum = hn::Add(sum, here);
    }
    return sum;
}

// Adds a vector of floats to doubles.
template <typename D>
HWY_INLINE void add_floats(D d, hn::VFromD<D> floats, double* HWY_RESTRICT sums) {
    const hn::CappedTag<double, 8> d64;
    const hn::Rebind<float, decltype(d64)> half;
    const std::size_t lanes = hn::Lanes(d64);
    HWY_ALIGN float stored[lanes_max];
    hn::Store(floats, d, stored);
    for (std::size_t i = 0; i < hn::Lanes(d); i += lanes)
        hn::StoreU(
            hn::Add(hn::LoadU(d64, sums + i), hn::PromoteTo(d64, hn::Load(half, stored + i))),
            d64,
            sums + i);
}

// 64 elements, once for all of them and once for those that each word picks.
HWY_INLINE void add_picked(const float* HWY_RESTRICT x,
                           const std::uint64_t* HWY_RESTRICT words,
                           double (*HWY_RESTRICT sums)[sum_lanes]) {
    const hn::CappedTag<float, 16> d;
    for (std::size_t lane = 0; lane < sum_lanes; lane += hn::Lanes(d)) {
        add_floats(d, picked_sum(d, x + lane, ~std::uint64_t{0}), sums[0] + lane);
        for (std::size_t k = 0; k < projections_at_once; ++k)
            add_floats(d, picked_sum(d, x + lane, words[k] >> lane), sums[1 + k] + lane);
    }
}

// Σ ±x is Σ x without twice what has a minus.
HWY_NOINLINE void project(const float* x,
                          const float* base,
                          const std::uint64_t* keys,
                          std::uint64_t place,
                          std::size_t count,
                          double* sums,
                          double* squares) {
    std::uint64_t words[projections_at_once];
    HWY_ALIGN double y[block_elements];
    HWY_ALIGN float padded[block_elements];
    HWY_ALIGN float zero[block_elements] = {};
    double picked[1 + projections_at_once][sum_lanes] = {};
    double lanes[sum_lanes] = {};
    for (std::size_t first = 0; first < count; first += block_elements) {
        const std::size_t here = std::min(block_elements, count - first);
        const float* block = x + first;
        if (here < block_elements) {
            std::copy(block, block + here, padded);
            std::fill(padded + here, padded + block_elements, 0.0f);
            block = padded;
        }
        make_words(keys, place + first, words);
        add_picked(block, words, picked);
        subtract(block, base == nullptr ? zero : base + first, here, y);
        add_pair(y, y, lanes);
    }
    const double all = joined_lanes(picked[0]);
    for (std::size_t k = 0; k < projections_at_once; ++k)
        sums[k] = sums[k] + (all - 2 * joined_lanes(picked[1 + k]));
    *squares = *squares + joined_lanes(lanes);
}

}  // namespace
}  // namespace dedloc::robust::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dedloc::robust {
namespace {

HWY_EXPORT(medians);
HWY_EXPORT(products);
HWY_EXPORT(combine);
HWY_EXPORT(project);

}  // namespace

std::vector<std::pair<std::uint16_t, std::uint16_t>> sorting_network(std::size_t count) {
    std::vector<std::pair<std::uint16_t, std::uint16_t>> network;
    std::size_t top = 1;
    while (top < count) top *= 2;
    for (std::size_t p = top / 2; p > 0; p /= 2) {
        std::size_t q = top / 2;
        std::size_t r = 0;
        for (std::size_t d = p;; d = q - p, q /= 2, r = p) {
            for (std::size_t i = 0; i + d < count; ++i)
                if ((i & p) == r)
                    network.emplace_back(static_cast<std::uint16_t>(i),
                                         static_cast<std::uint16_t>(i + d));
            if (q == p) break;
        }
    }
    return network;
}

double joined_lanes(const double* lanes) {
    double sum[sum_lanes];
    std::copy(lanes, lanes + sum_lanes, sum);
    for (std::size_t width = sum_lanes / 2; width >= 1; width /= 2)
        for (std::size_t j = 0; j < width; ++j) sum[j] = sum[j] + sum[j + width];
    return sum[0];
}

void weighted_medians(
    const MedianRule& rule, const float* rows, std::size_t stride, std::size_t count, float* out) {
    HWY_DYNAMIC_DISPATCH(medians)(rule, rows, stride, count, out);
}

void add_products(const float* rows,
                  std::size_t stride,
                  std::size_t members,
                  const float* base,
                  std::size_t count,
                  double* lanes) {
    HWY_DYNAMIC_DISPATCH(products)(rows, stride, members, base, count, lanes);
}

void add_combination(const float* rows,
                     std::size_t stride,
                     std::span<const double> factors,
                     std::size_t count,
                     float* base) {
    HWY_DYNAMIC_DISPATCH(combine)(rows, stride, factors, count, base);
}

void add_projections(const float* x,
                     const float* base,
                     const std::uint64_t* keys,
                     std::uint64_t place,
                     std::size_t count,
                     double* sums,
                     double* squares) {
    HWY_DYNAMIC_DISPATCH(project)(x, base, keys, place, count, sums, squares);
}

}  // namespace dedloc::robust
#endif  // HWY_ONCE
