// Rows: by which the members of a round prove, with a few numbers each, that every owner reduced
// rightly. One row a member and owner, over the owner's parts that include the member:
//
//   clipped[k]       Σ ⟨z[k], min(1, tau / |g - v|) (g - v)⟩   g: the member's mean
//   contribution[k]  Σ ⟨z[k], g⟩                               v: the average
//   norm             the largest |g - v| of a part
//
// At the point that CenteredClip stops at, the weighted sum of the clipped differences vanishes, so
// the rows' must, within what the codec rounds and the iterations leave (check_sums). An owner
// holds what its row says anything about, and refuses another one; rounding has no say in that, as
// rows have the same bits everywhere.
//
// Source: Gorbunov et al. 2022, algorithm 6. Cost: that of projections.h. Thread: any.

#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/result.h"
#include "dedloc/robust/projections.h"

namespace dedloc::robust {

struct Row {
    std::array<float, projections_count> clipped{};
    std::array<float, projections_count> contribution{};
    float norm = 0;

    friend bool operator==(const Row&, const Row&) = default;
};
inline constexpr std::size_t row_bytes = 4 * (2 * projections_count + 1);

// One row after the other, little-endian; rows of members that own nothing are not there.
Bytes encode_rows(std::span<const Row> rows);
// Errors: peer_broke_protocol: not `count` rows of finite numbers.
Result<std::vector<Row>> decode_rows(ByteView bytes, std::size_t count);

// A part as rows see it: where it lies, its decoded average, and tau of it.
struct ProvedPart {
    std::uint64_t offset = 0;
    std::span<const float> average;
    double tau = 0;
};

// The average's own projections, which all rows of the part need.
Projected project_average(const Projections& projections, const ProvedPart& part);

// Makes one row, part by part, in the plan's order.
class RowMaker {
  public:
    explicit RowMaker(const Projections& projections) : projections_(projections) {}

    // `mean`: the member's, of the part's elements.
    void add(const ProvedPart& part, const Projected& of_average, std::span<const float> mean);
    // A piece of a part; finish_part() closes it.
    void add_piece(std::uint64_t offset,
                   std::span<const float> average,
                   std::span<const float> mean);
    void finish_part(double tau, const Projected& of_average);
    // A whole part whose sums were made elsewhere; what is clipped counts `weight` times.
    void add_part(const Projections::Sums& sums,
                  double tau,
                  const Projected& of_average,
                  double weight);
    Row row() const;

  private:
    const Projections& projections_;
    Projections::Sums open_{};  // of the part that is open
    Projected clipped_{};
    Projected contribution_{};
    double norm_ = 0;
};

// An owner's parts may differ by so much.
struct PartAllowance {
    double weight = 0;       // of the members in it
    double tau = 0;          // of the part
    double codec_error = 0;  // |v - decode(encode(v))|, at most
};

struct WeightedRow {
    double weight = 0;
    const Row* row = nullptr;
};

// Do these rows of one owner say that its averages are the points where the clipped differences
// cancel? Errors: conflict: they do not, or a row cannot be of clipped differences.
Ok check_sums(std::span<const WeightedRow> rows, std::span<const PartAllowance> parts, double eps);

// How far two rows' contributions (and clipped differences) are from each other and how long the
// second is, estimated: the root mean square over projections, added up over owners.
struct RowDistance {
    double distance = 0;
    double length = 0;
};
RowDistance distance_between(std::span<const Row> rows, std::span<const Row> recomputed);

// How many times the tolerance two vectors may seem to differ by, of so many owners: two that both
// are off by half of the tolerance pass but for one check in ten million. 8.3 for one owner, 2.6
// for five, 1.7 for sixteen.
double estimate_allowance(std::size_t owners);

// Does a recomputation agree, by a tolerance that is relative to the recomputed length?
// Rounding of single samples averages out as their gradients do, so the relative error does not
// grow with the batch. A few projections tell a length only roughly: the tolerance is for those of
// many owners, and of few it is wider (estimate_allowance).
bool agree(std::span<const Row> rows, std::span<const Row> recomputed, double tolerance);

}  // namespace dedloc::robust
