#include "dedloc/p2p/host_diagnostics.h"

#include "dedloc/p2p/protocols.h"

namespace dedloc::p2p {

Path HostDiagnostics::path_to(const PeerId& peer) const {
    const ConnectionPtr connection = swarm_.table().best(peer);
    return connection ? connection->origin().path : Path::none;
}

std::optional<PeerFacts> HostDiagnostics::facts_of(const PeerId& peer) const {
    const ConnectionPtr connection = swarm_.table().best(peer);
    if (!connection) return std::nullopt;
    const auto& protocols = connection->protocols();
    return PeerFacts{.agent = connection->agent(),
                     .security = connection->security(),
                     .protocols = {protocols.begin(), protocols.end()},
                     .we_dialled = connection->is_dialler(),
                     .lanes = swarm_.lanes().count_to(peer)};
}

Task<Result<Duration>> HostDiagnostics::ping(PeerId peer, TimePoint deadline) {
    auto connected = co_await host_.connect(peer, deadline);
    if (!connected) co_return std::move(connected).error();
    ConnectionPtr connection = swarm_.table().best(peer);
    if (!connection) co_return Error(ErrorKind::peer_gone, "the connection was lost");
    Bytes payload = random_.bytes(ping_bytes);
    auto took =
        co_await ask_ping(std::move(connection), std::move(payload), &host_.clock(), deadline);
    co_return took;
}

Task<Result<std::vector<std::string>>> HostDiagnostics::find_peer(PeerId peer, TimePoint deadline) {
    auto found = co_await finder_.find(peer, deadline);
    if (!found) co_return std::move(found).error();
    co_return host_.addresses_of(peer);
}

}  // namespace dedloc::p2p
