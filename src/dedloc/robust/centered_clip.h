// CenteredClip: the point v at which the members' clipped differences cancel. However far a
// minority goes, it moves v by its share of tau.
//
//   v = weighted coordinate-wise median; repeat: d[i] = x[i] - v,
//   c[i] = w[i] min(1, tau / |d[i]|), s = Σ c[i] d[i], v += s / Σ c[i]; until |s| <= eps tau Σ w[i]
//
// The papers step by s / Σ w[i], which ends at the same point. But where all members are further
// away than tau (a loss that leaps), it takes |d| / tau times as many steps, and the proof of the
// round does not hold for a point short of the end. Divided by Σ c[i] (Weiszfeld's step) it does
// not depend on tau.
//
// Every iterate lies in the affine hull of the start and the members, so that the iterations run
// over inner products (affine_hull.h) instead of over the elements.
//
// Source: Karimireddy, He, Jaggi 2021 (arXiv 2012.10333); Gorbunov et al. 2022 (arXiv 2106.11257).
// Units:  tau and the result are those of the members' means.
// Cost:   centered_clip_bench.cpp. Thread: any. The same bits on every CPU.

#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "dedloc/robust/inputs.h"

namespace dedloc::robust {

struct ClipOptions {
    double tau = 4;  // of the vector that is given (part_tau)
    std::uint32_t iterations_max = 500;
    double eps = 1e-6;  // of tau
};

struct ClipReport {
    std::uint32_t iterations = 0;
    double last_step = 0;       // |s| / Σ w
    std::uint32_t clipped = 0;  // members that are further away than tau
};

// tau of a part with this fraction of the vector's elements: parts together then allow what the
// whole vector would. tau = 1 per sixteenth is tau = 4 of the whole.
double part_tau(double tau, std::uint64_t part_elements, std::uint64_t vector_elements);

// None of three members or more has more of a reduction than this.
inline constexpr double share_most = 0.4;

// Caps the weights of a plan: `cap` times the median of those that are not zero, and from three
// members on share_most of all. Influence is then bought by peers, not by claimed samples.
std::vector<double> capped_weights(std::span<const double> weights, double cap);

// `weights` are positive, one a member; at least one member.
ClipReport centered_clip(const Inputs& inputs,
                         std::span<const double> weights,
                         const ClipOptions& options,
                         std::span<float> out);

// min(1, tau / distance).
double clip_factor(double tau, double distance);

namespace reference {
// Word for word, over all elements in each iteration, one number at a time.
ClipReport centered_clip(const std::vector<std::vector<double>>& vectors,
                         std::span<const double> weights,
                         const ClipOptions& options,
                         std::vector<double>& out);
}  // namespace reference

}  // namespace dedloc::robust
