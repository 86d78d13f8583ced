// The real Host: libp2p over runtime::Network (TCP in the world, byte links in the simulator).
//
// Spoken: multistream-select, /tls/1.0.0 and /noise with early muxer negotiation, /yamux/1.0.0,
// /ipfs/id/1.0.0, /ipfs/ping/1.0.0, hivemind's unary and streaming framings
// (docs/spec/rpc.md; reference: libp2p specs); circuit relay v2, DCUtR and AutoNAT (nat.h, which
// also tells what a host found out).
//
//   auto identity = security::load_or_create_identity(directory);      // locked while it lives
//   p2p::HostOptions options{.executor = loop.executor(), .clock = *clock, .network = *network,
//                            .random = random, .identity = identity->identity(),
//                            .listen = {"/ip4/0.0.0.0/tcp/4001"}};
//   auto host = p2p::make_host(std::move(options));               // Result: a port may be in use
//   ...
//   co_await (*host)->stop();                                     // before it is destroyed
//
// Thread: the executor's, for make_host too. Cost: an idle connection holds about 25 KB of
// buffers.

#pragma once
#include <memory>
#include <string>
#include <vector>

#include "dedloc/base/random.h"
#include "dedloc/p2p/host.h"
#include "dedloc/p2p/limits.h"
#include "dedloc/p2p/nat.h"
#include "dedloc/runtime/network.h"
#include "dedloc/runtime/port_mapper.h"
#include "dedloc/security/identity.h"
#include "dedloc/security/identity_file.h"
#include "dedloc/transport/limits.h"
#include "dedloc/transport/upgrade.h"

namespace dedloc::p2p {

struct HostOptions {
    runtime::Executor executor;
    runtime::Clock& clock;
    runtime::Network& network;
    Random random;  // call ids, stagger; not for secrets
    security::Identity identity;

    // Multiaddrs to listen on: "/ip4/0.0.0.0/tcp/4001", "/ip6/::/tcp/4001"; port 0 lets the system
    // choose. Empty: client mode, nobody can dial us.
    std::vector<std::string> listen;
    // Others are told these instead of what we listen on. Empty: the listen addresses, 0.0.0.0
    // replaced by those of the machine's interfaces.
    std::vector<std::string> announce;
    std::string agent_version = "dedloc/0.1.0";
    // TLS first, then Noise: all peers but the smallest speak TLS, and AES has its instructions.
    transport::SecuritySettings security{};

    // Relays, reachability, hole punching.
    NatOptions nat{};
    // Opens a port of the router; must outlive the host. Null: none is asked for.
    runtime::PortMapper* port_mapper = nullptr;

    // Peers that nobody protects (Host::protect) have a small budget of processor time, bytes and
    // connections (stranger_budget.h). `welcome`: they have what everybody has, in an open swarm
    // without members, and in tests of what hosts can do.
    enum class Strangers { limited, welcome };
    Strangers strangers = Strangers::limited;
    // Memory that this process may have, for bounds that follow it; 0: as if there was plenty.
    std::uint64_t memory_bytes = 0;

    // Fewer where the network does not allow so many.
    std::size_t connections_max = p2p::connections_max;
    Duration keep_alive_interval = transport::keep_alive_interval;
    Duration keep_alive_answer_max = transport::keep_alive_answer_max;
};

// Errors: bad_input (an address that is no TCP multiaddr, an unknown security protocol),
// local_fault (port in use).
Result<std::unique_ptr<Host>> make_host(HostOptions options);

}  // namespace dedloc::p2p
