#include "dedloc/tasks/choose_token.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

namespace dedloc::tasks {

namespace {

// Scores below the k-th largest are out; equal ones stay.
void keep_largest(std::vector<double>& scores, std::size_t k) {
    if (k == 0 || k >= scores.size()) return;
    std::vector<double> sorted = scores;
    std::nth_element(sorted.begin(),
                     sorted.begin() + static_cast<std::ptrdiff_t>(k - 1),
                     sorted.end(),
                     std::greater<>());
    const double least = sorted[k - 1];
    for (double& score : scores)
        if (score < least) score = -std::numeric_limits<double>::infinity();
}

// Sets all probabilities to 0 but the likeliest that together have `share`; one stays at least.
void keep_share(std::vector<double>& probabilities, double share) {
    if (share >= 1) return;
    std::vector<std::size_t> order(probabilities.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return probabilities[a] > probabilities[b];
    });
    double total = 0;
    for (const std::size_t at : order) {
        const double own = probabilities[at];
        if (total >= share) probabilities[at] = 0;
        total += own;
    }
}

}  // namespace

std::size_t choose_token(std::span<const float> scores,
                         const ChoiceOptions& options,
                         Random& random) {
    const auto likeliest = std::max_element(scores.begin(), scores.end());
    if (options.temperature <= 0) return static_cast<std::size_t>(likeliest - scores.begin());
    std::vector<double> values(scores.begin(), scores.end());
    for (double& value : values) value /= options.temperature;
    keep_largest(values, static_cast<std::size_t>(std::max<std::int64_t>(options.top_k, 0)));
    const double largest = static_cast<double>(*likeliest) / options.temperature;
    double sum = 0;
    for (double& value : values) sum += value = std::exp(value - largest);
    for (double& value : values) value /= sum;
    keep_share(values, options.top_p);
    const double total = std::accumulate(values.begin(), values.end(), 0.0);
    const double mark = random.uniform() * total;
    double reached = 0;
    std::size_t last = 0;  // that has a probability, should sums be rounded
    for (std::size_t i = 0; i < values.size(); ++i) {
        if (values[i] <= 0) continue;
        last = i;
        reached += values[i];
        if (reached > mark) return i;
    }
    return last;
}

}  // namespace dedloc::tasks
