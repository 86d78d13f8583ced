// Largest numbers of a stretch: a magnitude that so many of them reach, where they are, and which
// of those are the largest. Choosing 64 of 4,096 exactly takes a look at some 80 after two passes,
// and after one where a magnitude is guessed that a few more reach.
//
// Magnitudes are the bits of |x|, which are in order as unsigned numbers; from 0x7f800000 on they
// are infinite or none.
//
// Cost:   a read of the stretch for each pass, in vectors (Highway); the same results on every CPU.
//         Nothing is allocated. Thread: any. Sizes that do not fit are our bug (DEDLOC_CHECK).

#pragma once
#include <cstdint>
#include <span>

namespace dedloc::tensor {

inline constexpr std::size_t magnitude_columns = 256;
inline constexpr std::uint32_t infinite_magnitude = 0x7f800000u;

struct LargestBound {
    std::uint32_t bound = 0;    // at least `rank` of the numbers reach it
    std::uint32_t largest = 0;  // magnitude
};

// x.size() is a multiple of magnitude_columns, and 1 ≤ rank ≤ magnitude_columns. Of 4,096 normal
// numbers some 80 reach the bound of rank 64; in the worst order all of a column do.
//
// Column c holds the numbers at c, c + 256, c + 512, …; at least as many numbers reach a bound as
// columns do by their largest.
LargestBound bound_of_largest(std::span<const float> x, std::size_t rank);

// The places whose magnitudes are at least `least`, ascending; places.size() ≥ x.size() ≤ 65,536.
// Returns how many there are.
std::size_t places_not_below(std::span<const float> x,
                             std::uint32_t least,
                             std::span<std::uint16_t> places);

inline constexpr std::size_t kept_of_most = 4096;

// Keeps, of these places, which ascend, the `rank` whose magnitudes are the largest, of equal ones
// the first, in their order at the beginning of `places`. All these numbers are finite, and
// 1 ≤ rank ≤ places.size() ≤ kept_of_most. Returns a magnitude that what is kept reaches, and of
// the rest only what equals the least that is kept.
std::uint32_t keep_largest(std::span<const float> x,
                           std::span<std::uint16_t> places,
                           std::size_t rank);

}  // namespace dedloc::tensor
