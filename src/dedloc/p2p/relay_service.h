// The relay's side of circuit relay v2: gives reservations, joins circuits, counts.
//
// A reservation holds until it expires and only while its peer stays connected, and not over
// another relay. A relay never dials: it leads to peers that are connected to it already. What it
// carries is encrypted end to end; it stores nothing.
//
// Source: libp2p specs/relay/circuit-v2. Limits: RelayLimits (nat.h), limits.h.
// Cost of a circuit: two buffers of relay_buffer_bytes_max when busy, plus two yamux windows.
// Thread: the network thread. Errors go to the client as statuses.

#pragma once
#include <functional>
#include <map>
#include <memory>

#include "dedloc/p2p/connection.h"
#include "dedloc/p2p/nat.h"
#include "dedloc/security/identity.h"
#include "dedloc/wire/multiaddr.h"
#include "dedloc/wire/relay_messages.h"

namespace dedloc::p2p {

class RelayService {
  public:
    using ConnectionPtr = std::shared_ptr<PeerConnection>;
    struct Surroundings {
        runtime::Executor executor;
        runtime::Clock& clock;
        security::Identity identity;
        std::function<bool()> is_serving;
        // The peers that it serves; others may only open circuits of few bytes, to be introduced.
        std::function<bool(const PeerId&)> is_served;
        // A connection to that peer that is no relayed one; null if there is none.
        std::function<ConnectionPtr(const PeerId&)> direct_connection;
        std::function<std::vector<wire::Multiaddr>()> own_addresses;  // plain, without our id
    };

    RelayService(RelayLimits limits, Surroundings surroundings);
    ~RelayService();

    // Serves one stream of the hop protocol, a circuit to its end.
    Task<void> serve(ConnectionPtr connection, std::shared_ptr<transport::Stream> stream);
    void forget(const PeerId& peer);  // it is not connected any more
    bool has_place(const PeerId& peer) const { return places_.contains(peer); }
    RelayCounters counters() const;

  private:
    struct Place {
        TimePoint until;
        std::string subnet;  // nat.h
    };
    struct Circuit;
    class PeerLoad;
    using Status = wire::RelayStatus;

    Status take_reservation(const PeerConnection& connection);
    bool make_place_for(const std::string& subnet);
    Task<void> wait_for_introductions(std::size_t bytes);
    wire::HopMessage grant(const PeerId& peer) const;
    Status may_connect(const PeerId& from,
                       const std::string& subnet,
                       const std::optional<PeerId>& to);
    Task<void> connect(std::shared_ptr<transport::Stream> stream,
                       PeerId from,
                       std::string subnet,
                       std::optional<PeerId> to);
    Task<Result<std::shared_ptr<transport::Stream>>> knock(PeerId from, PeerId to);
    Task<void> bridge(PeerId from,
                      std::shared_ptr<transport::Stream> a,
                      std::shared_ptr<transport::Stream> b);
    Task<void> copy(std::shared_ptr<Circuit> circuit,
                    std::shared_ptr<transport::Stream> from,
                    std::shared_ptr<transport::Stream> to);
    std::optional<wire::RelayLimit> circuit_limit() const;  // nullopt: none
    void drop_expired();
    std::size_t circuits_of(const PeerId& peer) const;
    std::size_t circuits_from(const std::string& subnet) const;

    RelayLimits limits_;
    Surroundings around_;
    std::map<PeerId, Place> places_;
    std::map<PeerId, std::size_t> circuits_;              // at either end
    std::map<std::string, std::size_t> opened_from_;      // by the caller's subnet
    std::map<std::string, std::size_t> introduced_from_;  // the same, of those who are not served
    std::size_t introductions_ = 0;
    TimePoint introductions_until_{Duration(0)};  // what they carried is paid off then
    RelayCounters counters_;
};

}  // namespace dedloc::p2p
