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

}  // namespace dedloc::averaging
