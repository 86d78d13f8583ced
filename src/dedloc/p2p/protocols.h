// The two small libp2p protocols every peer answers: identify and ping.
//
// Source: libp2p specs/identify, specs/ping. Limits: limits.h. Thread: the network thread.

#pragma once
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "dedloc/p2p/connection.h"
#include "dedloc/transport/stream.h"
#include "dedloc/wire/identify.h"
#include "dedloc/wire/multiaddr.h"

namespace dedloc::p2p {

inline constexpr std::string_view ping_protocol = "/ipfs/ping/1.0.0";
inline constexpr std::size_t ping_bytes = 32;
inline constexpr std::string_view libp2p_protocol_version = "ipfs/0.1.0";

// Encodes what we say of ourselves; addresses and protocols are left out beyond
// identify_sent_bytes_max, because rust-libp2p refuses more.
Bytes encode_identify(wire::Identify identify);

// The responder's side: `answer` is what encode_identify made.
Task<void> serve_identify(std::shared_ptr<transport::Stream> stream,
                          Bytes answer,
                          runtime::Clock* clock);

// The initiator's side: opens a stream on that connection and reads the answer.
Task<Result<wire::Identify>> ask_identify(std::shared_ptr<PeerConnection> connection,
                                          TimePoint deadline);

// The protocols of a peer that are remembered: the first ones, within protocols_per_peer_max and
// protocols_bytes_per_peer_max.
std::set<std::string> remembered_protocols(const std::vector<std::string>& told);

// The initiator's side of one ping: how long `payload` (32 bytes) took to come back.
Task<Result<Duration>> ask_ping(std::shared_ptr<PeerConnection> connection,
                                Bytes payload,
                                runtime::Clock* clock,
                                TimePoint deadline);

// Echoes 32 bytes at a time until the other side ends or is idle; `on_ping` is told of each.
Task<void> serve_ping(std::shared_ptr<transport::Stream> stream,
                      runtime::Clock* clock,
                      std::function<void()> on_ping);

}  // namespace dedloc::p2p
