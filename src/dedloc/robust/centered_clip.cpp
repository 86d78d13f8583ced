#include "dedloc/robust/centered_clip.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "dedloc/base/check.h"
#include "dedloc/base/float_environment.h"
#include "dedloc/robust/affine_hull.h"
#include "dedloc/robust/lower_median.h"

namespace dedloc::robust {
namespace {

// The iterations, with the point as its factors over the members.
class ClipIteration {
  public:
    ClipIteration(AffineHull& hull, std::span<const double> weights, const ClipOptions& options)
        : hull_(hull),
          weights_(weights),
          options_(options),
          all_(std::accumulate(weights.begin(), weights.end(), 0.0)),
          at_(weights.size(), 0.0),
          step_(weights.size(), 0.0) {}

    ClipReport run() {
        ClipReport report;
        while (report.iterations < options_.iterations_max) {
            ++report.iterations;
            report.clipped = find_step();
            for (std::size_t m = 0; m < at_.size(); ++m) at_[m] = at_[m] + step_[m];
            hull_.move_to(at_);
            report.last_step = left_;
            if (left_ <= options_.eps * options_.tau) break;
        }
        return report;
    }
    const std::vector<double>& at() const { return at_; }

  private:
    // To the mean by c: a[i] = c[i] / Σ c. What the clipped differences left is Σ c / Σ w of that.
    std::uint32_t find_step() {
        std::uint32_t clipped = 0;
        double all = 0;
        for (std::size_t m = 0; m < at_.size(); ++m) {
            const double factor = clip_factor(options_.tau, std::sqrt(hull_.squared_distance(m)));
            if (factor < 1) ++clipped;
            step_[m] = weights_[m] * factor;
            all = all + step_[m];
        }
        for (std::size_t m = 0; m < at_.size(); ++m) step_[m] = step_[m] / all - at_[m];
        left_ = std::sqrt(hull_.squared_length(step_)) * (all / all_);
        return clipped;
    }

    AffineHull& hull_;
    std::span<const double> weights_;
    const ClipOptions& options_;
    double all_ = 0;
    double left_ = 0;  // |Σ c d| / Σ w before the step
    std::vector<double> at_;
    std::vector<double> step_;
};

// The largest that may be had by the few that are cut down to it: at most two, as all together have
// at most share_most each.
void cap_shares(std::vector<double>& weights, std::vector<double> positive) {
    if (positive.size() < 3) return;
    std::ranges::sort(positive);
    const double largest = positive.back();
    for (std::size_t cut = 0; cut < 3; ++cut) {
        double rest = 0;
        for (std::size_t i = 0; i + cut < positive.size(); ++i) rest = rest + positive[i];
        const double most = share_most * rest / (1 - share_most * static_cast<double>(cut));
        const double next = cut == 0 ? largest : positive[positive.size() - 1 - cut];
        if (next > most) continue;
        if (cut > 0)
            for (double& weight : weights) weight = std::min(weight, most);
        return;
    }
}

}  // namespace

double part_tau(double tau, std::uint64_t part_elements, std::uint64_t vector_elements) {
    DEDLOC_CHECK(vector_elements > 0);
    return tau *
           std::sqrt(static_cast<double>(part_elements) / static_cast<double>(vector_elements));
}

std::vector<double> capped_weights(std::span<const double> weights, double cap) {
    std::vector<double> positive;
    for (const double weight : weights)
        if (weight > 0) positive.push_back(weight);
    std::vector<double> capped(weights.begin(), weights.end());
    if (positive.empty()) return capped;
    const double most = cap * lower_median(positive);
    for (double& weight : capped) weight = std::min(weight, most);
    for (double& weight : positive) weight = std::min(weight, most);
    cap_shares(capped, std::move(positive));
    return capped;
}

double clip_factor(double tau, double distance) { return distance > tau ? tau / distance : 1.0; }

ClipReport centered_clip(const Inputs& inputs,
                         std::span<const double> weights,
                         const ClipOptions& options,
                         std::span<float> out) {
    DEDLOC_CHECK(weights.size() == inputs.members() && options.tau > 0);
    const FloatEnvironmentGuard guard;
    AffineHull hull(inputs, weights, out);
    ClipIteration iteration(hull, weights, options);
    const ClipReport report = iteration.run();
    AffineHull::write(inputs, iteration.at(), out);
    return report;
}

}  // namespace dedloc::robust
