#include "dedloc/web/measured_traffic.h"

#include <algorithm>

namespace dedloc::web {
namespace {

// A counter that is less than before was forgotten meanwhile, and began anew.
double grown(std::uint64_t before, std::uint64_t now) {
    return static_cast<double>(now >= before ? now - before : now);
}

}  // namespace

void MeasuredTraffic::add(WallSeconds now, const std::vector<Carried>& carried) {
    if (!seen_.empty() && now < seen_.back().time) seen_.clear();  // the clock was set back
    const std::size_t count = seen_.size();
    const bool is_near =
        count >= 2 && seen_[count - 1].time - seen_[count - 2].time < traffic_look_s;
    if (is_near) seen_.pop_back();
    Seen snapshot{.time = now, .peers = {}};
    for (const Carried& one : carried) snapshot.peers.emplace(one.peer, one);
    seen_.push_back(std::move(snapshot));
    while (seen_.size() > traffic_looks_max ||
           (seen_.size() > 2 && now - seen_[1].time >= traffic_window_s))
        seen_.pop_front();
}

std::vector<std::pair<PeerId, MeasuredTraffic::Moved>> MeasuredTraffic::moved() const {
    std::vector<std::pair<PeerId, Moved>> all;
    if (seen_.size() < 2) return all;
    const Seen& newest = seen_.back();
    for (const auto& [peer, now] : newest.peers)
        for (const Seen& snapshot : seen_) {
            const auto before = snapshot.peers.find(peer);
            if (before == snapshot.peers.end()) continue;
            const double seconds = newest.time - snapshot.time;
            if (seconds > 0)
                all.emplace_back(
                    peer,
                    Moved{.seconds = seconds,
                          .sent_bytes = grown(before->second.sent_bytes, now.sent_bytes),
                          .received_bytes =
                              grown(before->second.received_bytes, now.received_bytes)});
            break;
        }
    std::ranges::stable_sort(all, std::greater(), [](const auto& one) {
        return one.second.sent_bytes + one.second.received_bytes;
    });
    return all;
}

}  // namespace dedloc::web
