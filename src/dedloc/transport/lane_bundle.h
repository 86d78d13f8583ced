// A bundle of lanes: several connections to one peer that carry one stream of bytes together. One
// TCP connection holds some MiB in flight at most (the kernel's buffers), which is a third of what
// a long, fat link takes; and after a loss it falls back alone.
//
//   piece = number (8 bytes, big endian) ‖ size (4) ‖ bytes, on whichever lane takes it first
//
// The other side puts the pieces in order again. Nothing here is secret or authentic: the security
// handshake and the muxer run over the bundle as over any connection (upgrade.h), which then serves
// bulk streams beside the peer's ordinary connection (swarm.h).
//
// Memory: what waits for a piece that is late (lane_bytes_ahead_max, from what all bundles of a
// host share), little until trust() is called, and one piece more for each lane. Cost: two copies a
// byte more than a bare connection. Thread: the network thread. Errors: peer_gone (a lane that is
// cut ends all), peer_broke_protocol.

#pragma once
#include <memory>
#include <vector>

#include "dedloc/base/time.h"
#include "dedloc/runtime/network.h"
#include "dedloc/runtime/scope.h"
#include "dedloc/transport/limits.h"

namespace dedloc::transport {

class LaneBundle : public runtime::Connection {
  public:
    virtual std::size_t lanes() const = 0;
    // The other side has shown who it is: it may use the memory that speed needs.
    virtual void trust() = 0;
};

// Memory that all bundles of a host hold beyond lane_bytes_ahead_before_trust_max each.
struct LaneMemory {
    std::size_t lent = 0;
    std::size_t lent_max = lane_bytes_ahead_total_max;
};

// The bundle's tasks run in `scope` until it is closed.
std::unique_ptr<LaneBundle> make_lane_bundle(
    std::vector<std::unique_ptr<runtime::Connection>> lanes,
    std::shared_ptr<LaneMemory> memory,
    runtime::Executor executor,
    runtime::Scope& scope);

// How many lanes a peer deserves to which `bytes_per_s` were moved over one or several connections;
// 1: what there is suffices.
std::size_t lanes_wanted(double bytes_per_s, Duration round_trip);

}  // namespace dedloc::transport
