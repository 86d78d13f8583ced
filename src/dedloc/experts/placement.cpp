#include "dedloc/experts/placement.h"

#include <algorithm>

#include "dedloc/base/random.h"

namespace dedloc::experts {
namespace {

std::uint64_t rank_of(std::string_view uid, const PeerId& server) {
    std::uint64_t hash = 0x9e3779b97f4a7c15;
    for (const char letter : uid) hash = base::mix64(hash ^ static_cast<std::uint8_t>(letter));
    for (const std::uint8_t byte : server.bytes()) hash = base::mix64(hash ^ byte);
    return hash;
}

}  // namespace

std::vector<PeerId> ranked(const std::string& uid, const std::vector<PeerId>& servers) {
    std::vector<std::pair<std::uint64_t, PeerId>> order;
    for (const PeerId& server : servers) order.emplace_back(rank_of(uid, server), server);
    std::sort(order.begin(), order.end(), std::greater<>());
    std::vector<PeerId> result;
    for (auto& [rank, server] : order) result.push_back(std::move(server));
    return result;
}

std::map<ExpertUid, PeerId> assign(const std::vector<ExpertUid>& missing,
                                   std::vector<ServerRoom> servers,
                                   std::uint64_t experts_count) {
    std::uint64_t room = 0;
    for (const ServerRoom& server : servers) room += server.experts_max;
    std::vector<PeerId> ids;
    std::map<PeerId, ServerRoom*> by_id;
    for (ServerRoom& server : servers) {
        ids.push_back(server.server);
        by_id[server.server] = &server;
    }
    std::map<ExpertUid, PeerId> result;
    for (const ExpertUid& uid : missing) {
        ServerRoom* best = nullptr;
        bool best_within_share = false;
        for (const PeerId& id : ranked(uid.text(), ids)) {
            ServerRoom* server = by_id.at(id);
            if (server->hosted >= server->experts_max) continue;
            const std::uint64_t share =
                (experts_count * server->experts_max + room - 1) / std::max<std::uint64_t>(1, room);
            const bool within_share = server->hosted < share;
            if (!best || (within_share && !best_within_share)) {
                best = server;
                best_within_share = within_share;
            }
        }
        if (!best) continue;
        ++best->hosted;
        result.emplace(uid, best->server);
    }
    return result;
}

}  // namespace dedloc::experts
