// For tests of hosts: a host on a machine of the simulator, and what it answers. Of the tests only.
#pragma once
#include "dedloc/p2p/make_host.h"
#include "dedloc/sim/world.h"
#include "dedloc/wire/multiaddr.h"

namespace dedloc::p2p {

// Listens on port 4001 of all its addresses, and welcomes everybody: these hosts have no members.
// `network`: instead of the machine's own.
inline HostOptions simulated_host(sim::World& world,
                                  sim::SimNode& node,
                                  std::uint8_t seed,
                                  runtime::Network* network = nullptr) {
    return {.executor = world.executor(),
            .clock = node.clock(),
            .network = network != nullptr ? *network : node.network(),
            .random = Random(seed),
            .identity = security::Identity::from_seed(Bytes(32, seed)).value(),
            .listen = {"/ip4/0.0.0.0/tcp/4001"},
            .announce = {},
            .nat = {.relay_for = RelayFor::anyone},
            .strangers = HostOptions::Strangers::welcome};
}

inline Task<Result<Bytes>> echo(PeerId, Bytes request) { co_return request; }

inline wire::Multiaddr tcp(const std::string& host, std::uint16_t port) {
    return wire::Multiaddr::tcp(host, port).value();
}

}  // namespace dedloc::p2p
