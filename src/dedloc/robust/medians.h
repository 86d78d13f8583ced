// The baselines of experiments, and where CenteredClip starts: the weighted coordinate-wise median
// and the weighted geometric median. Neither has a bound that honest members could check from
// projections, so runs do not offer them.
//
// Cost:   a sort of n numbers an element; the geometric one adds what affine_hull.h says.
// Thread: any. The same bits on every CPU.

#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "dedloc/robust/clip_kernels.h"
#include "dedloc/robust/inputs.h"

namespace dedloc::robust {

inline constexpr std::size_t members_max = 256;  // of one part; a plan has as many

MedianRule median_rule(std::span<const double> weights);

// Takes for each element the smallest value that, with all smaller ones, has half of the weight:
// with equal weights of 2k members the k-th, which torch calls the median, too.
void coordinate_median(const Inputs& inputs, std::span<const double> weights, std::span<float> out);

// The point with the least weighted sum of distances, by Weiszfeld's iterations from the
// coordinate-wise median. A distance counts as no less than `eps`. Returns the iterations made.
std::uint32_t geometric_median(const Inputs& inputs,
                               std::span<const double> weights,
                               std::uint32_t iterations_max,
                               double eps,
                               std::span<float> out);

}  // namespace dedloc::robust
