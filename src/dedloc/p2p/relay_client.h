// The client's side of circuit relay v2: asks for a reservation, opens circuits through a relay,
// takes those that others open to us.
//
// Source: libp2p specs/relay/circuit-v2. Limits: limits.h. Thread: the network thread.
// Errors: denied, overloaded (the relay refuses), not_found (nobody of that id has a reservation
// there), peer_gone, unsupported (no relay), peer_broke_protocol, timeout.

#pragma once
#include <vector>

#include "dedloc/p2p/connection.h"
#include "dedloc/wire/multiaddr.h"
#include "dedloc/wire/relay_messages.h"

namespace dedloc::p2p {

// Says for people what a relay's status means.
Error relay_refusal(const PeerId& relay, std::optional<wire::RelayStatus> status);

struct Reservation {
    Duration life{0};                        // from now
    std::vector<wire::Multiaddr> addresses;  // the relay's, plain, without its id
};

// A voucher must be the relay's, for `me` and for as long; a relay may give none. The relay's
// `expire` is wall time: `wall_now` turns it into a duration, clocks that differ are forgiven.
Result<Reservation> check_reservation(const wire::HopMessage& answer,
                                      const PeerId& relay,
                                      const PeerId& me,
                                      WallSeconds wall_now);

Task<Result<Reservation>> reserve(std::shared_ptr<PeerConnection> relay,
                                  PeerId me,
                                  WallSeconds wall_now,
                                  TimePoint deadline);

// A stream that leads to `peer`, raw: upgrade it next.
Task<Result<std::shared_ptr<transport::Stream>>> open_circuit(std::shared_ptr<PeerConnection> relay,
                                                              PeerId peer,
                                                              TimePoint deadline);

// Reads who calls, and answers OK if `is_welcome`. The stream then leads to the caller.
Task<Result<PeerId>> accept_circuit(std::shared_ptr<transport::Stream> stream, bool is_welcome);

}  // namespace dedloc::p2p
