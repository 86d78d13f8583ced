// Work over a vector in stretches, whose results are the same in whatever order they run.
//
// Thread: that of `parallel_for`'s caller. Cost: a task a stretch.

#pragma once
#include <algorithm>
#include <cstddef>
#include <span>

#include "dedloc/base/float_environment.h"
#include "dedloc/optim/muon_kernels.h"
#include "dedloc/optim/optimizer.h"
#include "dedloc/optim/optimizer_kernels.h"

namespace dedloc::optim {

// Runs work(begin, count) over stretches of `length`.
template <typename Work>
void in_stretches(std::size_t total,
                  std::size_t length,
                  const ParallelFor& parallel_for,
                  Work work) {
    parallel_for((total + length - 1) / length, [&](std::size_t i) {
        const FloatEnvironmentGuard guard;
        work(i * length, std::min(length, total - i * length));
    });
}

// to = to * keep + from * factor.
inline void scale_and_add(std::span<float> to,
                          float keep,
                          float factor,
                          std::span<const float> from,
                          const ParallelFor& parallel_for) {
    in_stretches(
        to.size(), chunk_elements, parallel_for, [&](std::size_t begin, std::size_t count) {
            chunk_scale_and_add(count, keep, factor, from.data() + begin, to.data() + begin);
        });
}

}  // namespace dedloc::optim
