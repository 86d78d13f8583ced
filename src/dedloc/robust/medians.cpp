#include "dedloc/robust/medians.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "dedloc/base/check.h"
#include "dedloc/base/float_environment.h"
#include "dedloc/robust/affine_hull.h"

namespace dedloc::robust {

MedianRule median_rule(std::span<const double> weights) {
    DEDLOC_CHECK(!weights.empty() && weights.size() <= members_max);
    MedianRule rule;
    rule.network = sorting_network(weights.size());
    float all = 0;
    for (const double weight : weights) {
        rule.weights.push_back(static_cast<float>(weight));
        all += rule.weights.back();
    }
    rule.half = all / 2;
    rule.equal = std::ranges::all_of(
        rule.weights, [&rule](float weight) { return weight == rule.weights.front(); });
    return rule;
}

void coordinate_median(const Inputs& inputs,
                       std::span<const double> weights,
                       std::span<float> out) {
    const FloatEnvironmentGuard guard;
    const MedianRule rule = median_rule(weights);
    std::vector<float> rows(inputs.members() * piece_elements);
    for (std::size_t first = 0; first < inputs.elements(); first += piece_elements) {
        const std::size_t count = std::min(piece_elements, inputs.elements() - first);
        for (std::size_t m = 0; m < inputs.members(); ++m)
            inputs.read(m, first, std::span(rows).subspan(m * piece_elements, count));
        weighted_medians(rule, rows.data(), piece_elements, count, out.data() + first);
    }
}

std::uint32_t geometric_median(const Inputs& inputs,
                               std::span<const double> weights,
                               std::uint32_t iterations_max,
                               double eps,
                               std::span<float> out) {
    const FloatEnvironmentGuard guard;
    AffineHull hull(inputs, weights, out);
    const std::size_t members = hull.members();
    std::vector<double> at(members, 0.0);
    std::vector<double> next(members);
    std::vector<double> move(members);
    std::uint32_t iterations = 0;
    while (iterations < iterations_max) {
        ++iterations;
        double all = 0;
        for (std::size_t m = 0; m < members; ++m) {
            next[m] = weights[m] / std::max(eps, std::sqrt(hull.squared_distance(m)));
            all = all + next[m];
        }
        for (std::size_t m = 0; m < members; ++m) {
            next[m] = next[m] / all;
            move[m] = next[m] - at[m];
        }
        at = next;
        hull.move_to(at);
        if (std::sqrt(hull.squared_length(move)) <= eps) break;
    }
    AffineHull::write(inputs, at, out);
    return iterations;
}

}  // namespace dedloc::robust
