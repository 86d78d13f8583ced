#include "dedloc/peer/cap_hint.h"

#include <algorithm>
#include <cmath>

#include "dedloc/planner/explanation.h"

namespace dedloc::peer {
namespace {

constexpr double megabit_bytes = 1e6 / 8;

struct OneWay {
    const char* option;
    const char* what;
    double bytes_per_s;  // 0: no cap
};

}  // namespace

std::string cap_hint(const run::AveragingConfig& averaging,
                     double vector_bytes,
                     const runtime::LineCaps& caps) {
    const double round_s = to_seconds(averaging.round_deadline_max);
    const OneWay ways[] = {{"--max-up", "gradient", caps.up}, {"--max-down", "average", caps.down}};
    std::string text;
    for (const OneWay& way : ways) {
        if (way.bytes_per_s <= 0 || vector_bytes / way.bytes_per_s <= round_s) continue;
        // The number that mends it comes first: of a long sentence the end may be cut.
        const double needed = vector_bytes / round_s / megabit_bytes;
        text += fmt::format(
            "{}{} is too small, it must be {:.2g} at least: one {} has {:.3g} MB and takes {} at "
            "{:g}"
            " Mb/s, and a round ends after {}",
            text.empty() ? "" : "; ",
            way.option,
            std::ceil(needed * 10) / 10,
            way.what,
            vector_bytes * 1e-6,
            planner::duration_text(vector_bytes / way.bytes_per_s),
            way.bytes_per_s / megabit_bytes,
            planner::duration_text(round_s));
    }
    if (!text.empty())
        text += ". Until then nothing that this peer computes reaches the others: it follows only";
    return text;
}

}  // namespace dedloc::peer
