#include "dedloc/averaging/parted_peers.h"

namespace dedloc::averaging {

std::set<PeerId> parted_peers(const std::map<PeerId, Announce>& announces) {
    std::map<PeerId, std::set<PeerId>> named;
    std::map<PeerId, std::size_t> namers;
    for (const auto& [peer, announce] : announces)
        for (const PeerId& other : announce.unreachable)
            if (other != peer && announces.contains(other) && named[peer].insert(other).second)
                ++namers[other];
    std::set<PeerId> parted;
    for (const auto& [peer, count] : namers)
        if (count > 1 && count * 2 >= announces.size()) parted.insert(peer);
    const std::set<PeerId> cut_off = parted;
    for (auto& [peer, others] : named) {
        std::erase_if(others, [&](const PeerId& other) { return cut_off.contains(other); });
        if (others.empty()) continue;
        parted.insert(peer);
        if (others.size() <= named_few(announces.size())) parted.merge(others);
    }
    return parted;
}

}  // namespace dedloc::averaging
