// HolePuncher: dials from the listen port again and again until both sides' packets meet (TCP
// simultaneous open), or a listener hears of one of these addresses.
//
// Thread: the network thread. Limits: punches_max, punch_addresses_max.

#pragma once
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "dedloc/p2p/connection_table.h"
#include "dedloc/runtime/event.h"
#include "dedloc/wire/multiaddr.h"

namespace dedloc::p2p {

class HolePuncher {
  public:
    struct Punch {
        Punch(PeerId to, bool client, TimePoint until, runtime::Executor executor)
            : peer(std::move(to)), as_client(client), deadline(until), done(std::move(executor)) {}

        PeerId peer;
        bool as_client;
        TimePoint deadline;
        std::set<runtime::SocketAddress> targets;
        runtime::Event done;
    };
    using PunchPtr = std::shared_ptr<Punch>;

    HolePuncher(SwarmParts& parts, const ConnectionTable& table) : parts_(parts), table_(table) {}

    // Both sides have agreed who is client. Errors: overloaded, not_found, timeout.
    Task<Result<void>> punch(PeerId peer,
                             std::vector<wire::Multiaddr> addresses,
                             bool as_client,
                             TimePoint deadline);
    // The hole that a connection from there belongs to; null: none.
    PunchPtr that_expects(const runtime::SocketAddress& remote) const;
    // Both sides' packets have met.
    Task<Result<void>> finish(PunchPtr punch, std::unique_ptr<runtime::Connection> raw);

  private:
    Task<void> punch_at(PunchPtr punch, runtime::SocketAddress target);

    SwarmParts& parts_;
    const ConnectionTable& table_;
    std::vector<PunchPtr> punches_;
};

}  // namespace dedloc::p2p
