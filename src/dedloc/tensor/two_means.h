// Two-means clustering of magnitudes: the border between a small and a large half, and the mean of
// each; at most six rounds from the mean of all. The same bits on every CPU.
//
//   sums are of the numbers in order, in double precision
//
// Where exponents lie so close that no sum of these numbers is rounded, as those of the largest of
// a stretch do, their order changes no bit, and they are added in vectors (Highway).
//
// Cost:   some 0.2 µs for 64 numbers. Nothing is allocated. Thread: any. A wrong number of numbers
//         is our bug (DEDLOC_CHECK).

#pragma once
#include <span>

namespace dedloc::tensor {

struct TwoMeans {
    double border = 0;  // larger numbers are in the large half
    double small = 0;
    double large = 0;  // where one half is empty both are the mean
};

inline constexpr std::size_t two_means_of_most = 4096;

// 1 to two_means_of_most numbers that are finite and not negative.
TwoMeans two_means(std::span<const float> magnitudes);

namespace reference {
TwoMeans two_means(std::span<const float> magnitudes);
}  // namespace reference

}  // namespace dedloc::tensor
