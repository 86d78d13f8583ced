#include "dedloc/experts/update_pool.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "dedloc/robust/centered_clip.h"

namespace dedloc::experts {

namespace {

constexpr double pool_weight_cap = 2;  // times the middle weight

double length_of(const std::vector<float>& vector) {
    double squares = 0;
    for (const float value : vector) squares += static_cast<double>(value) * value;
    return std::sqrt(squares);
}

// The lower one of two.
double middle_of(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

}  // namespace

void UpdatePool::add(const PeerId& member, std::size_t rows, std::vector<float> gradient) {
    const auto found = sums_.find(member);
    if (found == sums_.end()) {
        if (sums_.size() >= members_max) return;
        sums_.emplace(member,
                      Sum{.gradient = std::move(gradient), .rows = static_cast<double>(rows)});
        return;
    }
    Sum& sum = found->second;
    for (std::size_t i = 0; i < sum.gradient.size(); ++i) sum.gradient[i] += gradient[i];
    sum.rows += static_cast<double>(rows);
}

std::vector<float> UpdatePool::take() {
    std::vector<std::span<const float>> means;
    std::vector<double> rows;
    std::vector<double> lengths;
    for (auto& [member, sum] : sums_) {
        for (float& value : sum.gradient) value = static_cast<float>(value / sum.rows);
        means.emplace_back(sum.gradient);
        rows.push_back(sum.rows);
        lengths.push_back(length_of(sum.gradient));
    }
    const std::vector<double> weights = robust::capped_weights(rows, pool_weight_cap);
    std::vector<float> out(means.front().size());
    // All zeros: nothing to clip.
    const robust::ClipOptions options{.tau = std::max(middle_of(lengths), 1e-30)};
    (void)robust::centered_clip(robust::VectorInputs(means), weights, options, out);
    const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
    for (float& value : out) value = static_cast<float>(value * all);
    sums_.clear();
    return out;
}

}  // namespace dedloc::experts
