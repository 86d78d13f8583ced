// The formula as it is printed, for tests and readers.

#include <algorithm>
#include <cmath>
#include <numeric>
#include <utility>

#include "dedloc/robust/centered_clip.h"

namespace dedloc::robust::reference {
namespace {

double weighted_median(std::vector<std::pair<double, double>> values) {
    std::ranges::sort(values);
    double all = 0;
    for (const auto& [value, weight] : values) all += weight;
    double up_to_here = 0;
    for (const auto& [value, weight] : values) {
        up_to_here += weight;
        if (2 * up_to_here >= all) return value;
    }
    return values.back().first;
}

double distance(const std::vector<double>& a, const std::vector<double>& b) {
    double squares = 0;
    for (std::size_t i = 0; i < a.size(); ++i) squares += (a[i] - b[i]) * (a[i] - b[i]);
    return std::sqrt(squares);
}

}  // namespace

ClipReport centered_clip(const std::vector<std::vector<double>>& vectors,
                         std::span<const double> weights,
                         const ClipOptions& options,
                         std::vector<double>& v) {
    const std::size_t elements = vectors.front().size();
    v.resize(elements);
    for (std::size_t i = 0; i < elements; ++i) {
        std::vector<std::pair<double, double>> values;
        for (std::size_t m = 0; m < vectors.size(); ++m)
            values.emplace_back(vectors[m][i], weights[m]);
        v[i] = weighted_median(std::move(values));
    }
    const double all = std::accumulate(weights.begin(), weights.end(), 0.0);
    ClipReport report;
    while (report.iterations < options.iterations_max) {
        ++report.iterations;
        report.clipped = 0;
        std::vector<double> s(elements, 0.0);
        for (std::size_t m = 0; m < vectors.size(); ++m) {
            const double factor = clip_factor(options.tau, distance(vectors[m], v));
            if (factor < 1) ++report.clipped;
            for (std::size_t i = 0; i < elements; ++i)
                s[i] += weights[m] * factor * (vectors[m][i] - v[i]) / all;
        }
        double squares = 0;
        for (std::size_t i = 0; i < elements; ++i) {
            v[i] += s[i];
            squares += s[i] * s[i];
        }
        report.last_step = std::sqrt(squares);
        if (report.last_step <= options.eps * options.tau) break;
    }
    return report;
}

}  // namespace dedloc::robust::reference
