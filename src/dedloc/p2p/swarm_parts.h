// The parts of a swarm share this: its options, which peers are needed, where it listens, and how a
// connection that is authenticated gets its place.
//
// Thread: the network thread.

#pragma once
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "dedloc/p2p/connection.h"
#include "dedloc/runtime/network.h"
#include "dedloc/runtime/scope.h"

namespace dedloc::p2p {

using ConnectionPtr = std::shared_ptr<PeerConnection>;

struct SwarmOptions {
    runtime::Executor executor;
    runtime::Clock& clock;
    runtime::Network& network;
    security::Identity identity;
    std::shared_ptr<const transport::UpgradeContext> upgrades;
    Duration keep_alive_interval;
    Duration keep_alive_answer_max;
    // Connections to all peers together, each lane of a bundle counted; when they are there, a
    // new one makes the least missed go.
    std::size_t connections_max = p2p::connections_max;
    // Beside those that were protected: relays in use, peers that have their place here.
    std::function<bool(const PeerId&)> is_needed{};
    // Whether strangers have a budget, and few connections and bytes (stranger_budget.h).
    bool limits_strangers = true;
    // Memory that this process may have; 0: not known.
    std::uint64_t memory_bytes = 0;
    // Shall this host be dialled from our listen port, so that it sees that port's NAT mapping?
    std::function<bool(const std::string& host)> from_listen_port{};
};

// Peers whose connections are neither closed when idle nor to make room.
class NeededPeers {
  public:
    explicit NeededPeers(const SwarmOptions& options) : options_(options) {}

    // The caller that protects a peer says when that is over.
    void protect(const PeerId& peer, bool needed) {
        if (needed)
            protected_.insert(peer);
        else
            protected_.erase(peer);
    }
    bool is_protected(const PeerId& peer) const { return protected_.contains(peer); }
    bool is_needed(const PeerId& peer) const {
        return is_protected(peer) || (options_.is_needed && options_.is_needed(peer));
    }

  private:
    const SwarmOptions& options_;
    std::set<PeerId> protected_;
};

// The addresses that a host listens on.
class Listeners {
  public:
    explicit Listeners(runtime::Network& network) : network_(network) {}

    // All or none: a host that cannot be made has started nothing. Errors: bad_input, local_fault.
    Ok open(const std::vector<std::string>& multiaddrs);
    const std::vector<std::shared_ptr<runtime::Listener>>& all() const { return listeners_; }
    std::vector<runtime::SocketAddress> addresses() const;
    // 0: none could share its port with a connection to there.
    std::uint16_t port_for(const runtime::SocketAddress& target) const;
    void close();

  private:
    runtime::Network& network_;
    std::vector<std::shared_ptr<runtime::Listener>> listeners_;
};

struct SwarmParts {
    const SwarmOptions& options;
    runtime::Scope& scope;
    NeededPeers needed{options};
    Listeners listeners{options.network};
    PeerTraffic traffic{};
    bool closing = false;
    // Makes room and puts it among the others. Errors: overloaded; peer_gone: the host stops.
    std::function<Result<ConnectionPtr>(transport::SecureConnection, Origin)> add{};
    // Not started, and in no table yet.
    std::function<ConnectionPtr(transport::SecureConnection, Origin)> make_connection{};

    runtime::Clock& clock() const { return options.clock; }
    TimePoint now() const { return options.clock.now(); }
};

}  // namespace dedloc::p2p
