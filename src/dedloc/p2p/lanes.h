// Lanes: who gets a bundle of connections for bulk, and how those find each other again at the
// other end (transport/lane_bundle.h).
//
// The side that dialled the ordinary connection opens the bundle, as only it is sure to know an
// address; both use it. A bundle that is too thin for what was measured is replaced by a thicker
// one and ends as a twin does.
//
// Thread: the network thread. Limits: lane_bundles_pending_max; each lane counts as a connection.

#pragma once
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "dedloc/p2p/connection_table.h"
#include "dedloc/transport/lane_bundle.h"

namespace dedloc::p2p {

class Lanes {
  public:
    Lanes(SwarmParts& parts, ConnectionTable& table) : parts_(parts), table_(table) {}

    // Is there room for so many connections, at the cost of those that nobody used for so long?
    void ask_for_room(std::function<bool(std::size_t, Duration)> ask) { ask_ = std::move(ask); }

    // The bundle of lanes where there is one; null: bulk goes the way of everything.
    ConnectionPtr to(const PeerId& peer) const;
    std::size_t count_to(const PeerId& peer) const;
    // When a bundle to this peer was used last.
    TimePoint last_use(const PeerId& peer) const;
    std::vector<ConnectionPtr> all() const;
    // This connection has much to carry: lanes may help.
    void consider(const ConnectionPtr& busy);
    // An accepted lane waits here for its siblings; the last one to come goes on for all.
    Task<void> take(transport::SecureConnection accepted);
    // Without the ordinary connection nobody would notice that the peer has gone.
    void close(const PeerId& peer, const Error& reason);

  private:
    // The bundles to one peer: the one for new streams, and those that end.
    struct Bundles {
        ConnectionPtr current;
        std::vector<ConnectionPtr> all;
        bool opening = false;
        TimePoint not_before;
    };
    struct Bundling;
    class BundlingWait;

    Task<void> open_lane(runtime::SocketAddress address,
                         transport::LaneGreeting greeting,
                         std::shared_ptr<Bundling> bundling);
    Task<void> open_bundle(ConnectionPtr main, std::size_t count);
    bool add_bundle(transport::SecureConnection secured, transport::LaneBundle* bundle);
    void remove_bundle(const PeerConnection* connection);

    SwarmParts& parts_;
    ConnectionTable& table_;
    std::function<bool(std::size_t, Duration)> ask_;
    std::shared_ptr<transport::LaneMemory> memory_ = std::make_shared<transport::LaneMemory>();
    std::map<PeerId, Bundles> bundles_;
    std::map<std::array<std::uint8_t, 16>, std::shared_ptr<Bundling>> bundlings_;
};

}  // namespace dedloc::p2p
