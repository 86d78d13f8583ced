#include "dedloc/robust/rows.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "dedloc/base/check.h"
#include "dedloc/robust/centered_clip.h"

namespace dedloc::robust {
namespace {

// In standard deviations of a projection: eight projections of honest sums stay within it in all
// but one of 10^8 checks.
constexpr double deviations_max = 6;
// Steps of the iteration that may be left where it stopped.
constexpr double steps_left_max = 16;
// A row's numbers are floats.
constexpr double float_rounding = 1.0 / (1 << 22);

Error does_not_hold(std::string_view why) {
    return make_error(ErrorKind::conflict, "a reduction is refused: {}", why);
}

void put_float(Bytes& bytes, float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8)
        bytes.push_back(static_cast<std::uint8_t>(bits >> shift));
}

float take_float(ByteView& bytes) {
    std::uint32_t bits = 0;
    for (std::size_t i = 0; i < 4; ++i) bits |= std::uint32_t{bytes[i]} << (8 * i);
    bytes = bytes.subspan(4);
    return std::bit_cast<float>(bits);
}

double squared(double value) { return value * value; }

}  // namespace

Bytes encode_rows(std::span<const Row> rows) {
    Bytes bytes;
    bytes.reserve(rows.size() * row_bytes);
    for (const Row& row : rows) {
        for (const float each : row.clipped) put_float(bytes, each);
        for (const float each : row.contribution) put_float(bytes, each);
        put_float(bytes, row.norm);
    }
    return bytes;
}

Result<std::vector<Row>> decode_rows(ByteView bytes, std::size_t count) {
    if (bytes.size() != count * row_bytes)
        return make_error(ErrorKind::peer_broke_protocol, "rows of the wrong length");
    std::vector<Row> rows(count);
    bool finite = true;
    const auto take = [&] {
        const float value = take_float(bytes);
        finite = finite && std::isfinite(value);
        return value;
    };
    for (Row& row : rows) {
        for (float& each : row.clipped) each = take();
        for (float& each : row.contribution) each = take();
        row.norm = take();
        finite = finite && row.norm >= 0;
    }
    if (!finite) return make_error(ErrorKind::peer_broke_protocol, "rows that are no numbers");
    return rows;
}

Projected project_average(const Projections& projections, const ProvedPart& part) {
    Projections::Sums sums;
    projections.add(part.offset, part.average, {}, sums);
    return sums.projected;
}

void RowMaker::add(const ProvedPart& part,
                   const Projected& of_average,
                   std::span<const float> mean) {
    add_piece(part.offset, part.average, mean);
    finish_part(part.tau, of_average);
}

void RowMaker::add_piece(std::uint64_t offset,
                         std::span<const float> average,
                         std::span<const float> mean) {
    projections_.add(offset, mean, average, open_);
}

void RowMaker::finish_part(double tau, const Projected& of_average) {
    add_part(open_, tau, of_average, 1);
    open_ = {};
}

void RowMaker::add_part(const Projections::Sums& sums,
                        double tau,
                        const Projected& of_average,
                        double weight) {
    const double distance = std::sqrt(sums.squared_distance);
    const double factor = weight * clip_factor(tau, distance);
    for (std::size_t k = 0; k < projections_count; ++k) {
        clipped_[k] += factor * (sums.projected[k] - of_average[k]);
        contribution_[k] += sums.projected[k];
    }
    norm_ = std::max(norm_, distance);
}

Row RowMaker::row() const {
    Row row;
    for (std::size_t k = 0; k < projections_count; ++k) {
        row.clipped[k] = static_cast<float>(clipped_[k]);
        row.contribution[k] = static_cast<float>(contribution_[k]);
    }
    row.norm = static_cast<float>(norm_);
    return row;
}

Ok check_sums(std::span<const WeightedRow> rows, std::span<const PartAllowance> parts, double eps) {
    double variance = 0;
    double left_over = 0;
    double tau_squares = 0;
    for (const PartAllowance& part : parts) {
        variance += squared(part.weight * part.codec_error);
        left_over += part.weight * eps * part.tau * steps_left_max;
        tau_squares += squared(part.tau);
    }
    // No clipped difference is longer than tau, so no projection of it is much longer.
    const double longest = deviations_max * std::sqrt(tau_squares);
    for (std::size_t k = 0; k < projections_count; ++k) {
        double sum = 0;
        double magnitudes = 0;
        for (const WeightedRow& each : rows) {
            const double clipped = static_cast<double>(each.row->clipped[k]);
            if (std::abs(clipped) > longest)
                return does_not_hold("a row is longer than a clipped difference can be");
            sum += each.weight * clipped;
            magnitudes += each.weight * (std::abs(clipped) +
                                         std::abs(static_cast<double>(each.row->contribution[k])));
        }
        const double allowed =
            deviations_max * std::sqrt(variance) + left_over + magnitudes * float_rounding;
        if (std::abs(sum) > allowed)
            return does_not_hold("the clipped differences do not cancel at its average");
    }
    return {};
}

RowDistance distance_between(std::span<const Row> rows, std::span<const Row> recomputed) {
    DEDLOC_CHECK(rows.size() == recomputed.size());
    double of_contributions = 0;
    double of_clipped = 0;
    double length = 0;
    for (std::size_t o = 0; o < rows.size(); ++o) {
        for (std::size_t k = 0; k < projections_count; ++k) {
            const double wanted = static_cast<double>(recomputed[o].contribution[k]);
            of_contributions += squared(static_cast<double>(rows[o].contribution[k]) - wanted);
            of_clipped += squared(static_cast<double>(rows[o].clipped[k]) -
                                  static_cast<double>(recomputed[o].clipped[k]));
            length += squared(wanted);
        }
    }
    const auto mean_root = [](double sum) {
        return std::sqrt(sum / static_cast<double>(projections_count));
    };
    // Clipping brings two vectors no further apart.
    return {std::max(mean_root(of_contributions), mean_root(of_clipped)), mean_root(length)};
}

// The ratio of two estimated lengths squared has Fisher's distribution with as many degrees of
// freedom twice; this is above its quantiles from eight on.
double estimate_allowance(std::size_t owners) {
    constexpr double deviations = 6;
    const auto freedom = static_cast<double>(projections_count * std::max<std::size_t>(owners, 1));
    return std::exp(deviations / std::sqrt(freedom));
}

bool agree(std::span<const Row> rows, std::span<const Row> recomputed, double tolerance) {
    const RowDistance found = distance_between(rows, recomputed);
    return found.distance <= tolerance * estimate_allowance(rows.size()) * found.length;
}

}  // namespace dedloc::robust
