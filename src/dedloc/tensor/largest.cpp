// Compiled once for each CPU target and chosen at run time.

#include "dedloc/tensor/largest.h"

#include <algorithm>
#include <bit>

#include "dedloc/base/check.h"

// Highway includes this file again for every target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "dedloc/tensor/largest.cpp"
#include <hwy/foreach_target.h>  // must come before highway.h
// (a line between, so that the formatter keeps the order)
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace dedloc::tensor::HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D32 = hn::CappedTag<float, 16>;
using DI32 = hn::RebindToSigned<D32>;  // without the sign no magnitude is negative
using VI = hn::Vec<DI32>;

HWY_INLINE VI magnitudes_at(const float* x) {
    const DI32 di;
    return hn::And(hn::BitCast(di, hn::LoadU(D32(), x)), hn::Set(di, 0x7fffffff));
}

// `count`: a multiple of the lanes.
HWY_INLINE std::size_t count_not_below(const std::int32_t* words,
                                       std::size_t count,
                                       std::int32_t least) {
    const DI32 di;
    const VI border = hn::Set(di, least);
    VI below = hn::Zero(di);  // each lane counts down the words that it finds below
    for (std::size_t i = 0; i < count; i += hn::Lanes(di))
        below = hn::Add(below, hn::VecFromMask(di, hn::Lt(hn::Load(di, words + i), border)));
    const int not_reached = -hn::GetLane(hn::SumOfLanes(di, below));
    return count - static_cast<std::size_t>(not_reached);
}

HWY_NOINLINE LargestBound bound_of_largest(const float* x, std::size_t count, std::size_t rank) {
    const DI32 di;
    const std::size_t lanes = hn::Lanes(di);
    HWY_ALIGN std::int32_t columns[magnitude_columns];
    VI largest = hn::Zero(di);
    VI smallest = hn::Set(di, 0x7fffffff);
    for (std::size_t column = 0; column < magnitude_columns; column += lanes) {
        VI most = magnitudes_at(x + column);
        for (std::size_t i = column + magnitude_columns; i < count; i += magnitude_columns)
            most = hn::Max(most, magnitudes_at(x + i));
        hn::Store(most, di, columns + column);
        largest = hn::Max(largest, most);
        smallest = hn::Min(smallest, most);
    }
    std::int64_t low = hn::GetLane(hn::MinOfLanes(di, smallest));  // every column reaches it
    const std::int64_t most = hn::GetLane(hn::MaxOfLanes(di, largest));
    std::int64_t high = most + 1;  // no column reaches it
    while (high - low > 1) {
        const auto middle = static_cast<std::int32_t>((low + high) / 2);
        const std::size_t reached = count_not_below(columns, magnitude_columns, middle);
        if (reached < rank) {
            high = middle;
            continue;
        }
        low = middle;
        if (reached <= rank + rank / 8) break;
    }
    return {static_cast<std::uint32_t>(low), static_cast<std::uint32_t>(most)};
}

// Bit i of the result says whether number i of these 64 has a magnitude above `below`.
HWY_INLINE std::uint64_t word_not_below(const float* x, VI below) {
    const DI32 di;
    std::uint64_t word = 0;
    for (std::size_t i = 0; i < 64; i += hn::Lanes(di)) {
        std::uint8_t bits[8] = {};
        (void)hn::StoreMaskBits(di, hn::Gt(magnitudes_at(x + i), below), bits);
        word |= std::uint64_t{bits[0] | (unsigned{bits[1]} << 8)} << i;
    }
    return word;
}

// The places of the bits of a word, of which few are set. Nobody could guess how many: the first
// ones are written without asking, where there is room for a word's.
HWY_INLINE std::size_t write_places(std::uint64_t word, std::size_t first, std::uint16_t* places) {
    constexpr std::size_t usual = 4;
    const auto found = static_cast<std::size_t>(std::popcount(word));
    const auto next = [&word, first] {
        const auto place = static_cast<std::size_t>(std::countr_zero(word));
        word &= word - 1;
        return static_cast<std::uint16_t>(first + place);
    };
    for (std::size_t i = 0; i < usual; ++i) places[i] = next();
    for (std::size_t i = usual; i < found; ++i) places[i] = next();
    return found;
}

HWY_NOINLINE std::size_t places_not_below(const float* x,
                                          std::size_t count,
                                          std::uint32_t least,
                                          std::uint16_t* places) {
    const VI below = hn::Set(DI32(), static_cast<std::int32_t>(least) - 1);
    std::size_t found = 0;
    std::size_t i = 0;
    for (; i + 64 <= count; i += 64)
        found += write_places(word_not_below(x + i, below), i, places + found);
    for (; i < count; ++i)
        if ((std::bit_cast<std::uint32_t>(x[i]) & 0x7fffffff) >= least)
            places[found++] = static_cast<std::uint16_t>(i);
    return found;
}

// A magnitude between these two that `rank` of the words reach and no more; or, where equal ones
// stand in the way, the magnitude of these. All reach `low`, and none `high`.
HWY_INLINE std::int32_t least_of_largest(const std::int32_t* words,
                                         std::size_t count,
                                         std::size_t rank,
                                         std::int64_t low,
                                         std::int64_t high) {
    while (high - low > 1) {
        const auto middle = static_cast<std::int32_t>((low + high) / 2);
        const std::size_t reached = count_not_below(words, count, middle);
        (reached < rank ? high : low) = middle;
        if (reached == rank) break;
    }
    return static_cast<std::int32_t>(low);
}

HWY_NOINLINE std::uint32_t keep_largest(const float* x,
                                        std::uint16_t* places,
                                        std::size_t count,
                                        std::size_t rank) {
    const DI32 di;
    HWY_ALIGN std::int32_t words[kept_of_most + 16];  // the widest vector behind the last
    std::int32_t smallest = 0x7fffffff;
    std::int32_t largest = 0;
    for (std::size_t i = 0; i < count; ++i) {
        words[i] = std::bit_cast<std::int32_t>(x[places[i]]) & 0x7fffffff;
        smallest = std::min(smallest, words[i]);
        largest = std::max(largest, words[i]);
    }
    std::size_t padded = count;
    while (padded % hn::Lanes(di) != 0) words[padded++] = -1;
    const std::int32_t least =
        least_of_largest(words, padded, rank, smallest, std::int64_t{largest} + 1);
    std::size_t found = 0;
    if (count_not_below(words, padded, least) == rank) {
        for (std::size_t i = 0; i < count; ++i) {  // no jumps, as nobody could guess them
            places[found] = places[i];
            found += words[i] >= least ? 1 : 0;
        }
        return static_cast<std::uint32_t>(least);
    }
    std::size_t equal_left = rank - count_not_below(words, padded, least + 1);
    for (std::size_t i = 0; i < count; ++i) {
        const bool takes_equal = words[i] == least && equal_left != 0;
        places[found] = places[i];
        found += words[i] > least || takes_equal ? 1 : 0;
        equal_left -= takes_equal ? 1 : 0;
    }
    return static_cast<std::uint32_t>(least);
}

}  // namespace
}  // namespace dedloc::tensor::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace dedloc::tensor {
namespace {
HWY_EXPORT(bound_of_largest);
HWY_EXPORT(places_not_below);
HWY_EXPORT(keep_largest);
}  // namespace

LargestBound bound_of_largest(std::span<const float> x, std::size_t rank) {
    DEDLOC_CHECK(!x.empty() && x.size() % magnitude_columns == 0, "{} numbers", x.size());
    DEDLOC_CHECK(rank >= 1 && rank <= magnitude_columns, "the {} largest", rank);
    return HWY_DYNAMIC_DISPATCH(bound_of_largest)(x.data(), x.size(), rank);
}

std::size_t places_not_below(std::span<const float> x,
                             std::uint32_t least,
                             std::span<std::uint16_t> places) {
    DEDLOC_CHECK(places.size() >= x.size() && x.size() <= 65'536, "{} numbers", x.size());
    DEDLOC_CHECK(least <= 0x7fffffffu, "{} is no magnitude", least);
    return HWY_DYNAMIC_DISPATCH(places_not_below)(x.data(), x.size(), least, places.data());
}

std::uint32_t keep_largest(std::span<const float> x,
                           std::span<std::uint16_t> places,
                           std::size_t rank) {
    DEDLOC_CHECK(rank >= 1 && rank <= places.size(), "the {} largest", rank);
    DEDLOC_CHECK(places.size() <= kept_of_most, "{} places", places.size());
    return HWY_DYNAMIC_DISPATCH(keep_largest)(x.data(), places.data(), places.size(), rank);
}

}  // namespace dedloc::tensor
#endif  // HWY_ONCE
