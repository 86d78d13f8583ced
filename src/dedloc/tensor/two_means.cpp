// Compiled once for each CPU target and chosen at run time.

#include "dedloc/tensor/two_means.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <utility>

#include "dedloc/base/check.h"
#include "dedloc/base/float_environment.h"

#ifndef DEDLOC_TENSOR_TWO_MEANS_ROUNDS
#define DEDLOC_TENSOR_TWO_MEANS_ROUNDS
namespace dedloc::tensor {
namespace {

struct HalfSum {
    double sum = 0;
    std::size_t count = 0;
};

constexpr int two_means_rounds = 6;

// The rounds. `above(border)` sums up what is larger, and `below(border, above)` the rest.
template <typename Above, typename Below>
TwoMeans cluster(double total, std::size_t all, const Above& above, const Below& below) {
    TwoMeans halves;
    halves.border = total / static_cast<double>(all);
    for (int round = 0; round < two_means_rounds; ++round) {
        const HalfSum large = above(halves.border);
        const HalfSum small = below(halves.border, large);
        const auto mean = [](const HalfSum& half) {
            return half.sum / static_cast<double>(half.count);
        };
        // Rounding may lift a mean of equal numbers above them: then one half is empty.
        halves.small = mean(small.count == 0 ? large : small);
        halves.large = mean(large.count == 0 ? small : large);
        const double before = std::exchange(halves.border, (halves.small + halves.large) / 2);
        if (halves.border == before) break;
    }
    return halves;
}

}  // namespace
}  // namespace dedloc::tensor
#endif  // DEDLOC_TENSOR_TWO_MEANS_ROUNDS

// Highway includes this file again for every target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dedloc/tensor/two_means.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
// (a line between, so that the formatter keeps the order)
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace dedloc::tensor::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D64 = hn::CappedTag<double, 8>;

// `count`: a multiple of the lanes; numbers that fill up are 0, and no border is below that.
HWY_INLINE HalfSum sum_above(const double* numbers, std::size_t count, double border) {
    const D64 d;
    const auto least = hn::Set(d, border);
    const auto one = hn::Set(d, 1.0);
    auto sum = hn::Zero(d);
    auto found = hn::Zero(d);
    for (std::size_t i = 0; i < count; i += hn::Lanes(d)) {
        const auto some = hn::Load(d, numbers + i);
        const auto larger = hn::Gt(some, least);
        sum = hn::Add(sum, hn::IfThenElseZero(larger, some));
        found = hn::Add(found, hn::IfThenElseZero(larger, one));
    }
    return {hn::GetLane(hn::SumOfLanes(d, sum)),
            static_cast<std::size_t>(hn::GetLane(hn::SumOfLanes(d, found)))};
}

// No sum of the magnitudes is rounded.
HWY_NOINLINE TwoMeans two_means_exact(const float* magnitudes, std::size_t count) {
    HWY_ALIGN double numbers[two_means_of_most + 8];  // the widest vector behind the last
    for (std::size_t i = 0; i < count; ++i) numbers[i] = static_cast<double>(magnitudes[i]);
    std::size_t padded = count;
    while (padded % hn::Lanes(D64()) != 0) numbers[padded++] = 0;
    const double total = sum_above(numbers, padded, 0).sum;
    return cluster(
        total,
        count,
        [&](double border) { return sum_above(numbers, padded, border); },
        [&](double, const HalfSum& large) {
            return HalfSum{total - large.sum, count - large.count};
        });
}

}  // namespace
}  // namespace dedloc::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dedloc::tensor {
namespace {

HWY_EXPORT(two_means_exact);

constexpr int float_digits = 24;
constexpr int double_digits = 53;

// A sum of n numbers is a multiple of the last digit of the smallest, and less than n times twice
// the power of two of the largest. 0 changes none.
bool sums_are_exact(std::span<const float> magnitudes) {
    std::uint32_t smallest = 0x7fffffff;
    std::uint32_t largest = 0;
    for (const float magnitude : magnitudes) {
        const auto bits = std::bit_cast<std::uint32_t>(magnitude);
        largest = std::max(largest, bits);
        smallest = std::min(smallest, bits - 1);  // of 0 the largest of all
    }
    const int high = static_cast<int>(largest >> 23);
    const int low = std::max(1, static_cast<int>((smallest + 1) >> 23));
    const int digits = static_cast<int>(std::bit_width(magnitudes.size() - 1));
    return high - low + digits + float_digits <= double_digits;
}

}  // namespace

TwoMeans two_means(std::span<const float> magnitudes) {
    DEDLOC_CHECK(!magnitudes.empty() && magnitudes.size() <= two_means_of_most,
                 "{} numbers",
                 magnitudes.size());
    if (!sums_are_exact(magnitudes)) return reference::two_means(magnitudes);
    const FloatEnvironmentGuard guard;
    return HWY_DYNAMIC_DISPATCH(two_means_exact)(magnitudes.data(), magnitudes.size());
}

namespace reference {

TwoMeans two_means(std::span<const float> magnitudes) {
    const FloatEnvironmentGuard guard;
    const auto sum_if = [magnitudes](const auto& is_in) {
        HalfSum half;
        for (const float magnitude : magnitudes) {
            const auto number = static_cast<double>(magnitude);
            if (!is_in(number)) continue;
            half.sum += number;
            ++half.count;
        }
        return half;
    };
    const double total = sum_if([](double) { return true; }).sum;
    return cluster(
        total,
        magnitudes.size(),
        [&](double border) { return sum_if([border](double x) { return x > border; }); },
        [&](double border, const HalfSum&) {
            return sum_if([border](double x) { return !(x > border); });
        });
}

}  // namespace reference

}  // namespace dedloc::tensor
#endif  // HWY_ONCE
