#include "dedloc/links/partition_detector.h"

namespace dedloc::links {

std::set<PeerId> partitioned_peers(const std::map<PeerId, std::vector<PeerId>>& unreachable) {
    std::map<PeerId, std::set<PeerId>> named;
    std::map<PeerId, std::size_t> namers;
    for (const auto& [peer, names] : unreachable)
        for (const PeerId& other : names)
            if (other != peer && unreachable.contains(other) && named[peer].insert(other).second)
                ++namers[other];
    std::set<PeerId> partitioned;
    for (const auto& [peer, count] : namers)
        if (count > 1 && count * 2 >= unreachable.size()) partitioned.insert(peer);
    const std::set<PeerId> cut_off = partitioned;
    for (auto& [peer, others] : named) {
        std::erase_if(others, [&](const PeerId& other) { return cut_off.contains(other); });
        if (others.empty()) continue;
        partitioned.insert(peer);
        if (others.size() <= named_few(unreachable.size())) partitioned.merge(others);
    }
    return partitioned;
}

}  // namespace dedloc::links
