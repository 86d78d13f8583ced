// The nearest matrix with orthogonal rows (or columns), nearly: what Muon makes of a direction.
//
// Five (`steps`) rounds of the polynomial X = a X + (b A + c A²) X, A = X Xᵀ, after a division by
// the norm. Its coefficients bring singular values to between 0.7 and 1.2 quickly, not to 1.
//
// Source: Jordan et al., Muon: An optimizer for hidden layers in neural networks (2024), also
//         torch.optim.Muon. They compute in bf16; here everything is fp32, in a fixed order, so
//         that all peers have the same bits.
// Cost:   steps * (4 r² c + 2 r³) operations of a matrix of r × c, r <= c; memory: 2 copies of the
//         matrix and two of r × r.
// Thread: any; the caller holds a FloatEnvironmentGuard, tasks of parallel_for have their own.

#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "dedloc/optim/optimizer.h"

namespace dedloc::optim {

// In place; `matrix` has rows of `columns` elements.
void orthogonalize(std::span<float> matrix,
                   std::size_t columns,
                   std::uint64_t steps,
                   const ParallelFor& parallel_for);

}  // namespace dedloc::optim
