// PowerSGD: a gradient matrix M (n × m) as P Qᵀ of low rank r, with error feedback. Instead of n m
// numbers the group averages r (n + m), in two rounds:
//
//   M += gradient;        P = M Q           first_factor;  P is averaged over the group
//   P̂ = orthonormal(P);   Q' = Mᵀ P̂         second_factor; Q' is averaged
//   average ≈ P̂ (mean Q')ᵀ;  M -= P̂ Q'ᵀ     finish
//
// Each peer subtracts what it sent itself, P̂ (own Q')ᵀ, and not the group's average as hivemind
// does: so sent + residual = M for every peer by itself, and a peer whose factor the round did not
// take keeps its whole M (promise 2). Averaging is linear: sums over samples work as well as means.
// Averaged Q is the next round's Q (warm start); all peers begin with the same one, from a seed,
// and a newcomer takes it from a provider (q(), set_q()).
//
// Conservation: P̂ Q'ᵀ is summed in rank order in fp32 and subtracted once: sent + residual = M
// within one rounding of M an element.
//
// Source: Vogels et al. 2019 (algorithm 1, 2); hivemind's PowerSGDGradientAverager for which
//         tensors (matrix_shape) and for orthonormal() (Gram-Schmidt, eps 1e-8).
// Cost:   4 n m r multiplications a round and 2 n m r for the average; memory n m + r (n + 2 m).
// Bits:   P̂, Q' and the average are the same on every CPU for the same averaged bytes.
// Errors: bad_input: a factor of the wrong size or not finite. Thread: any, one at a time.

#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "dedloc/base/result.h"

namespace dedloc::codec {

struct MatrixShape {
    std::size_t rows = 0;
    std::size_t columns = 0;

    friend bool operator==(const MatrixShape&, const MatrixShape&) = default;
};

// The tensor as a matrix: neighbouring axes are merged, the pair with the smallest product first,
// until two are left. Nothing if it has fewer than two axes, or if rank (rows + columns) numbers
// save less than `saving_least` of the whole.
std::optional<MatrixShape> matrix_shape(std::span<const std::int64_t> shape,
                                        std::size_t rank,
                                        double saving_least = 0.5);

// Makes the vectors orthonormal in order: each is divided by its length (at least 1e-8), then its
// part is taken out of the later ones. `vectors`: `count` vectors one after another.
void orthonormalize(std::span<float> vectors, std::size_t count);

// p = M q and q = Mᵀ p for each of some vectors, one vector after another; M row by row. Sums of
// `times` are in tensor::dot's order, those of the other in the order of the rows.
void times(std::span<const float> m,
           MatrixShape shape,
           std::span<const float> q,
           std::span<float> p);
void transposed_times(std::span<const float> m,
                      MatrixShape shape,
                      std::span<const float> p,
                      std::span<float> q);

class PowerSgd {
  public:
    PowerSgd(MatrixShape shape, std::size_t rank, std::uint64_t seed);

    // Factors are `rank` vectors one after another: P of rows, Q of columns.
    std::size_t p_count() const { return rank_ * shape_.rows; }
    std::size_t q_count() const { return rank_ * shape_.columns; }

    // Begins a round. Errors: also if M would not be finite; then nothing has changed.
    Result<std::vector<float>> first_factor(std::span<const float> gradient);
    Result<std::vector<float>> second_factor(std::span<const float> averaged_p);
    // Writes the group's average into `out`. `taken`: the round averaged this peer's factors.
    Ok finish(std::span<const float> averaged_q, bool taken, std::span<float> out);
    // The round failed: M stays pending whole.
    void abandon();

    std::span<const float> residual() const { return m_; }
    std::span<const float> q() const { return q_; }
    Ok set_q(std::span<const float> q);

  private:
    enum class Stage { idle, first, second };

    MatrixShape shape_;
    std::size_t rank_;
    std::vector<float> m_;
    std::vector<float> q_;      // of the last round, averaged
    std::vector<float> p_;      // orthonormal
    std::vector<float> own_q_;  // what this peer sent
    Stage stage_ = Stage::idle;
};

}  // namespace dedloc::codec
