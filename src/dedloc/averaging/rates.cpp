#include "dedloc/averaging/rates.h"

#include <algorithm>

namespace dedloc::averaging {

double line_rate(std::vector<Flow> flows) {
    std::sort(flows.begin(), flows.end(), [](const Flow& a, const Flow& b) {
        return a.seconds < b.seconds;
    });
    std::uint64_t bytes = 0;
    double best = 0;
    for (const Flow& flow : flows) {
        bytes += flow.bytes;
        if (bytes >= flow_bytes_min)
            best = std::max(best,
                            static_cast<double>(bytes) / std::max(flow.seconds, flow_seconds_min));
    }
    return best;
}

void GrowingRate::observe(double bytes_per_s) {
    constexpr std::size_t rounds_remembered = 8;
    constexpr double more = 1.08;  // than noise
    if (bytes_per_s <= 0) return;
    const double before = recent_.empty() ? 0 : *std::max_element(recent_.begin(), recent_.end());
    recent_.push_back(bytes_per_s);
    if (recent_.size() > rounds_remembered) recent_.pop_front();
    const double best = *std::max_element(recent_.begin(), recent_.end());
    claim_ = best * (bytes_per_s > before * more ? 2.0 : 1.1);
}

}  // namespace dedloc::averaging
