// Every limit of transport in one place, with its reason. What a peer can make us hold, wait
// for or start is bounded by one of these.

#pragma once
#include <cstddef>
#include <cstdint>

#include "dedloc/base/time.h"

namespace dedloc::transport {
// --- yamux (libp2p specs/yamux; reference: go-yamux 4, rust-yamux 0.13) ---

// Both directions of a stream start with this window; the protocol fixes it.
inline constexpr std::uint32_t window_bytes_start = 256u << 10;
// Auto-tuning stops here: 16 MiB fill 1 Gbit/s at 130 ms. go-yamux has the same maximum.
inline constexpr std::uint32_t window_bytes_max = 16u << 20;
// Auto-tuning may give this to all streams of one connection beyond their start windows.
inline constexpr std::size_t window_growth_bytes_max = 48u << 20;
// The same over lanes (below), which exist for links that hold more: one round trip is in flight,
// and while a lane repairs a loss the others send for another. 40 MiB fill 200 Mbit/s at 300 ms
// through five of those. Together less than connection_unread_bytes_max.
inline constexpr std::uint32_t lane_window_bytes_max = 40u << 20;
inline constexpr std::size_t lane_window_growth_bytes_max = 56u << 20;
// Received, not yet read by the streams' owners: beyond it, the stream that received last is reset.
// A fast stream that is being read needs at most its window.
inline constexpr std::size_t connection_unread_bytes_max = 64u << 20;
// The same together with what has come of messages that are not complete. One peer is asked for
// some 32 MiB at once, and sends parts of a round meanwhile.
inline constexpr std::size_t connection_received_bytes_max = 128u << 20;
// All connections of a host together: 64 peers with a message of 4 MiB each under way take half.
// A connection may hold as much of it as it leaves free, so that none takes it all; one to a peer
// that is not protected counts with half, so that strangers never take the place of members.
inline constexpr std::size_t host_received_bytes_max = 512u << 20;
// Answers and messages that we have queued on streams the peer opened, because it does not read:
// beyond it, the stream that would queue more is reset.
inline constexpr std::size_t connection_queued_bytes_max = 128u << 20;
// All connections of a host together, shared as host_received_bytes_max is. Averages count once
// for each peer they are sent to, and are in memory once.
inline constexpr std::size_t host_queued_bytes_max = 1024u << 20;
// However full the host is, a connection may hold so much received and so much queued: one window;
// 1 GiB if all connections that there may be do.
inline constexpr std::size_t connection_share_bytes_min = window_bytes_start;
// Header included: what every implementation accepts; rust-yamux refuses more than 1 MiB.
inline constexpr std::uint32_t frame_bytes_max = 64u << 10;
inline constexpr std::uint32_t frame_payload_bytes_max = frame_bytes_max - 12;
// On a slow line, where a frame of the usual size would keep small ones waiting.
inline constexpr std::uint32_t frame_bytes_min = 4u << 10;
// A longer data frame from a peer ends the session. js-yamux fills the whole window with one frame;
// frames are passed on piece by piece, so a long one costs no memory.
inline constexpr std::uint32_t frame_received_bytes_max = window_bytes_max;
// Streams that the other side may have open at once; more are refused by RST.
inline constexpr std::size_t streams_inbound_max = 1024;
inline constexpr std::size_t streams_outbound_max = 4096;
// Streams we opened that the other side has not acknowledged: go-yamux resets beyond 256.
inline constexpr std::size_t streams_unacknowledged_max = 256;
// Streams that are over and still wait for their turn to be sent, beside as many as live ones.
inline constexpr std::size_t streams_over_queued_max = 64;
// Control frames waiting for a peer that does not read. 12 bytes each.
inline constexpr std::size_t control_frames_max = 4096;
// Small streams overtake bulk ones, but bulk gets one frame in nine.
inline constexpr int small_frames_in_a_row_max = 8;
inline constexpr std::size_t small_stream_bytes_max = 16u << 10;
// A closed stream whose other side keeps its half open is reset after this.
inline constexpr Duration stream_linger_max = 30s;

inline constexpr Duration keep_alive_interval = 30s;
inline constexpr Duration keep_alive_answer_max = 10s;

// --- connections ---

// One stage of an upgrade (multistream, TLS, muxer), and a stream's negotiation.
inline constexpr Duration negotiation_max = 15s;
// A whole upgrade, whatever its stages cost.
inline constexpr Duration upgrade_max = 20s;

// Proposals of one stream negotiation; then the stream is reset.
inline constexpr int proposals_max = 8;
// Beyond it, a silent one goes (inbound_handshakes.h).
inline constexpr std::size_t handshakes_inbound_max = 64;
// In a full house newcomers of one network drive out each other so often, and so many at once:
// 64 seats are then held for 1.3 s, the time of a handshake over a long, slow line.
inline constexpr Duration crowding_interval = 20ms;
inline constexpr int crowding_burst = 16;
// An address that knocked no more often than this, a few times in a row, does not wait for that.
inline constexpr Duration knock_interval = 1s;
inline constexpr int knocks_in_a_row = 3;
inline constexpr std::size_t knocking_addresses_max = 1024;

// --- lanes (lane_bundle.h) ---
// Connections in one bundle. 8 times what the kernel lets a connection have in flight (some 3 MiB)
// fill 600 Mbit/s at 300 ms.
inline constexpr std::size_t lanes_per_peer_max = 8;
// Counted on for one lane: less than the kernel's usual limit, so that each has room to grow.
inline constexpr std::size_t lane_flight_bytes = 2u << 20;
// The link may carry so many times what was measured.
inline constexpr double lane_headroom = 4;
// Nearer peers are filled by one connection.
inline constexpr Duration lane_round_trip_min = 20ms;
inline constexpr std::size_t lane_piece_bytes_max = 64u << 10;
// A bundle may wait for a late piece with so much: of a peer that has shown who it is; before that.
// A lane that repairs a loss is late by a round trip, in which the others carry what the link can.
inline constexpr std::size_t lane_bytes_ahead_max = 32u << 20;
inline constexpr std::size_t lane_bytes_ahead_before_trust_max = 256u << 10;
// All bundles of a host together, beyond that: an identity costs nothing, so one that has shown its
// own may be many. Without room a bundle goes on, with as little ahead as before trust.
inline constexpr std::size_t lane_bytes_ahead_total_max = 128u << 20;
// Bundles whose lanes are still arriving.
inline constexpr std::size_t lane_bundles_pending_max = 32;
// Lanes are considered each time a connection has moved so much; after a failure not before a
// pause.
inline constexpr std::size_t lane_consider_bytes = 8u << 20;
inline constexpr Duration lane_retry_pause = 60s;
// A connection makes room for lanes when nobody has used it for so long.
inline constexpr Duration lane_room_unused_min = 60s;
// A stream that has moved so much makes its method one for lanes.
inline constexpr std::size_t bulk_stream_bytes_min = 1u << 20;

}  // namespace dedloc::transport
