// Robust rules that move through the members' affine hull need this of long vectors: the
// inner products of x[m] - base. A point base + Σ a[m] (x[m] - base) is its factors `a`, and its
// distance from any member follows from the products, so that hundreds of iterations cost two
// passes over the elements.
//
// Source: the expansion of |x[i] - v|²; exact but for the rounding of doubles.
// Cost:   n²/2 products an element to build (centered_clip_bench.cpp), n² an iteration.
// Thread: any. The same bits on every CPU.

#pragma once
#include <cstddef>
#include <span>
#include <vector>

#include "dedloc/robust/inputs.h"

namespace dedloc::robust {

class AffineHull {
  public:
    // Products of what `inputs` bring around `base`.
    AffineHull(const Inputs& inputs, std::span<const float> base);
    // The same, and `base` becomes their weighted coordinate-wise median on the way.
    AffineHull(const Inputs& inputs, std::span<const double> weights, std::span<float> base);

    std::size_t members() const { return members_; }

    // Where the rule stands: Σ a[m] (x[m] - base).
    void move_to(std::span<const double> factors);
    // The squared distance of member m from there; never negative.
    double squared_distance(std::size_t member) const;
    // |Σ b[m] (x[m] - base)|².
    double squared_length(std::span<const double> factors) const;

    // Writes the point with these factors over `base`, which is what this was built with.
    static void write(const Inputs& inputs, std::span<const double> factors, std::span<float> base);

  private:
    double product(std::size_t a, std::size_t b) const { return products_[a * members_ + b]; }
    void take_lanes(const std::vector<double>& lanes);

    std::size_t members_ = 0;
    std::vector<double> products_;  // members × members
    std::vector<double> towards_;   // products × factors
    double length_ = 0;             // factors × products × factors
};

}  // namespace dedloc::robust
