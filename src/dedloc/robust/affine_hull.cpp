#include "dedloc/robust/affine_hull.h"

#include <algorithm>

#include "dedloc/base/check.h"
#include "dedloc/base/float_environment.h"
#include "dedloc/robust/clip_kernels.h"
#include "dedloc/robust/medians.h"

namespace dedloc::robust {
namespace {

// `work(first, count, rows)` for each piece of all members, row m at rows + m * piece_elements.
template <typename Work>
void for_each_piece_of(const Inputs& inputs, const Work& work) {
    std::vector<float> rows(inputs.members() * piece_elements);
    for (std::size_t first = 0; first < inputs.elements(); first += piece_elements) {
        const std::size_t count = std::min(piece_elements, inputs.elements() - first);
        for (std::size_t m = 0; m < inputs.members(); ++m)
            inputs.read(m, first, std::span(rows).subspan(m * piece_elements, count));
        work(first, count, rows.data());
    }
}

std::vector<double> no_products(const Inputs& inputs) {
    const std::size_t members = inputs.members();
    return std::vector<double>(members * (members + 1) / 2 * sum_lanes, 0.0);
}

}  // namespace

AffineHull::AffineHull(const Inputs& inputs, std::span<const float> base)
    : members_(inputs.members()) {
    DEDLOC_CHECK(members_ <= members_max && base.size() == inputs.elements());
    const FloatEnvironmentGuard guard;
    std::vector<double> lanes = no_products(inputs);
    for_each_piece_of(inputs, [&](std::size_t first, std::size_t count, const float* rows) {
        add_products(rows, piece_elements, members_, base.data() + first, count, lanes.data());
    });
    take_lanes(lanes);
}

AffineHull::AffineHull(const Inputs& inputs, std::span<const double> weights, std::span<float> base)
    : members_(inputs.members()) {
    DEDLOC_CHECK(members_ <= members_max && base.size() == inputs.elements());
    const FloatEnvironmentGuard guard;
    const MedianRule rule = median_rule(weights);
    std::vector<double> lanes = no_products(inputs);
    for_each_piece_of(inputs, [&](std::size_t first, std::size_t count, const float* rows) {
        weighted_medians(rule, rows, piece_elements, count, base.data() + first);
        add_products(rows, piece_elements, members_, base.data() + first, count, lanes.data());
    });
    take_lanes(lanes);
}

void AffineHull::take_lanes(const std::vector<double>& lanes) {
    products_.assign(members_ * members_, 0.0);
    const double* next = lanes.data();
    for (std::size_t a = 0; a < members_; ++a) {
        for (std::size_t b = 0; b <= a; ++b, next += sum_lanes)
            products_[a * members_ + b] = products_[b * members_ + a] = joined_lanes(next);
    }
    towards_.assign(members_, 0.0);
    length_ = 0;
}

void AffineHull::move_to(std::span<const double> factors) {
    length_ = 0;
    for (std::size_t a = 0; a < members_; ++a) {
        double sum = 0;
        for (std::size_t b = 0; b < members_; ++b) sum = sum + product(a, b) * factors[b];
        towards_[a] = sum;
        length_ = length_ + sum * factors[a];
    }
}

double AffineHull::squared_distance(std::size_t member) const {
    return std::max(0.0, product(member, member) - 2 * towards_[member] + length_);
}

double AffineHull::squared_length(std::span<const double> factors) const {
    double length = 0;
    for (std::size_t a = 0; a < members_; ++a) {
        double sum = 0;
        for (std::size_t b = 0; b < members_; ++b) sum = sum + product(a, b) * factors[b];
        length = length + sum * factors[a];
    }
    return std::max(0.0, length);
}

void AffineHull::write(const Inputs& inputs,
                       std::span<const double> factors,
                       std::span<float> base) {
    const FloatEnvironmentGuard guard;
    for_each_piece_of(inputs, [&](std::size_t first, std::size_t count, const float* rows) {
        add_combination(rows, piece_elements, factors, count, base.data() + first);
    });
}

}  // namespace dedloc::robust
