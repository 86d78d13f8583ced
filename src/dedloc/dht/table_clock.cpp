#include "dedloc/dht/table_clock.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace dedloc::dht {

void TableClock::heard(const PeerId& peer, double difference) {
    if (!std::isfinite(difference)) return;
    const Heard now{.start = own_start() + difference, .at = clock_.now()};
    if (heard_.size() >= peers_heard_max && !heard_.contains(peer))
        heard_.erase(std::ranges::min_element(
            heard_, {}, [](const auto& entry) { return entry.second.at; }));
    heard_[peer] = now;
}

void TableClock::agree() {
    std::erase_if(heard_,
                  [this](const auto& entry) { return clock_.now() - entry.second.at > heard_for; });
    if (heard_.empty()) return;
    std::vector<double> starts{own_start()};
    for (const auto& [peer, heard] : heard_) starts.push_back(heard.start);
    const auto middle = starts.begin() + static_cast<std::ptrdiff_t>(starts.size() / 2);
    std::nth_element(starts.begin(), middle, starts.end());
    start_ = *middle;
}

bool TableClock::disputed() const {
    constexpr double borne_s = 1;
    return std::ranges::any_of(heard_, [own = own_start()](const auto& entry) {
        return std::abs(entry.second.start - own) > borne_s;
    });
}

WallSeconds TableClock::now() const {
    return start_ ? *start_ + to_seconds(clock_.now().since_start) : clock_.wall_now();
}

}  // namespace dedloc::dht
