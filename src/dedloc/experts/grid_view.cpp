#include "dedloc/experts/grid_view.h"

#include <algorithm>
#include <map>

#include "dedloc/runtime/together.h"

namespace dedloc::experts {

dht::DhtId servers_key(const ExpertGrid& grid) {
    return dht::DhtId::of_text("dedloc-experts:" + grid.name);
}

std::vector<ServerSeen> servers_from(const dht::Stored& stored) {
    std::vector<ServerSeen> servers;
    for (const dht::SignedEntry& entry : dht::signed_entries(stored)) {
        const auto record = wire::decode<ServerRecordPayload>(entry.payload);
        if (record) servers.push_back({.server = entry.signer, .record = *record});
    }
    return servers;
}

std::size_t GridSeen::served() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(experts, [](const ExpertSeen& seen) { return seen.answers; }));
}

namespace {

constexpr Duration alive_answer_max = std::chrono::seconds(2);

Task<void> ask_server(p2p::Host& host,
                      PeerId server,
                      std::vector<ExpertSeen*> experts,
                      TimePoint deadline) {
    AliveRequest request;
    for (const ExpertSeen* seen : experts) request.uids.push_back(seen->uid.text());
    const auto answer = co_await host.call(server, alive_method, wire::encode(request), deadline);
    if (!answer) co_return;
    const auto response = wire::decode<AliveResponse>(*answer);
    if (!response) co_return;
    for (std::size_t i = 0; i < std::min(experts.size(), response->updates.size()); ++i) {
        experts[i]->answers = response->updates[i] > 0;
        if (experts[i]->answers) experts[i]->updates = response->updates[i] - 1;
    }
}

}  // namespace

Task<GridSeen> survey_grid(p2p::Host& host,
                           dht::DhtNode& table,
                           Directory& directory,
                           ExpertGrid grid,
                           TimePoint deadline) {
    GridSeen seen;
    const auto stored = co_await table.get(servers_key(grid), dht::Freshness::latest, deadline);
    if (stored && *stored) seen.servers = servers_from(**stored);
    const std::vector<ExpertUid> uids = grid.all();
    std::vector<ExpertUid> asked = uids;
    const auto named = co_await directory.find(std::move(asked), dht::Freshness::latest, deadline);
    for (std::size_t i = 0; i < uids.size(); ++i)
        seen.experts.push_back(
            {.uid = uids[i], .server = named[i] ? *named[i] : std::optional<PeerId>()});
    std::map<PeerId, std::vector<ExpertSeen*>> by_server;
    for (ExpertSeen& expert : seen.experts)
        if (expert.server) by_server[*expert.server].push_back(&expert);
    std::vector<Task<void>> questions;
    const TimePoint answered_by = host.clock().now() + alive_answer_max;
    for (auto& [server, experts] : by_server)
        questions.push_back(ask_server(host, server, std::move(experts), answered_by));
    co_await runtime::all_of(std::move(questions));
    co_return seen;
}

}  // namespace dedloc::experts
