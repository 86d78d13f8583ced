// Keeps reservations at relays while nobody can dial this host: takes them at connected peers that
// offer relay service, at relays_used_max of them, renews them, replaces those that are lost.
//
// Cost: one message each way a reservation and two thirds of its life. Thread: the network thread.
// Limits: relays_used_max; a relay that refused is left alone for refused_min, doubling to
// refused_max.

#pragma once
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "dedloc/p2p/nat.h"
#include "dedloc/p2p/relay_client.h"
#include "dedloc/runtime/event.h"

namespace dedloc::p2p {

class RelayReservations {
  public:
    using ConnectionPtr = std::shared_ptr<PeerConnection>;
    struct Surroundings {
        runtime::Executor executor;
        runtime::Clock& clock;
        PeerId me;
        std::function<bool()> is_needed;
        std::function<ConnectionPtr(const PeerId&)> direct_connection;
        std::function<bool(std::string_view ip)> is_public;
        std::function<void()> on_change;  // addresses() has become another
    };

    explicit RelayReservations(Surroundings surroundings);

    Task<void> run();  // until it is cancelled
    // A peer that offers relay service is connected.
    void add_candidate(const PeerId& peer);
    // A relay that served its members only may have become ours: it is asked again soon.
    void ask_soon(const PeerId& peer);
    void forget(const PeerId& peer);  // it is not connected any more
    // The relay accepts no new reservations. Ours stays until another relay has one for us: peers
    // may be connected over this one, and it may serve again.
    void retire(const PeerId& peer);
    void wake() { news_.set(); }  // is_needed() may have changed

    bool has(const PeerId& relay) const { return held_.contains(relay); }
    std::vector<RelayUse> uses() const;
    // "<relay>/p2p/<its id>/p2p-circuit"
    std::vector<wire::Multiaddr> addresses() const;

  private:
    struct Held {
        TimePoint renew_at;
        TimePoint until;
        std::vector<wire::Multiaddr> addresses;
        bool is_retired = false;
    };
    struct Candidate {
        TimePoint not_before;
        Duration wait{0};
    };

    Task<void> take(PeerId relay);
    std::vector<wire::Multiaddr> addresses_of(const PeerConnection& connection,
                                              const Reservation& reservation) const;
    bool has_enough() const;
    std::optional<PeerId> next_due() const;
    TimePoint next_time() const;
    void drop(const PeerId& relay);
    void drop_replaced();

    Surroundings around_;
    std::map<PeerId, Held> held_;
    std::map<PeerId, Candidate> candidates_;
    runtime::Event news_;
};

}  // namespace dedloc::p2p
