// Every limit of p2p in one place, with its reason, but for those of its connections' bytes
// (transport/limits.h). What a peer can make us hold, wait for or start is bounded by one of these.

#pragma once
#include <cstddef>
#include <cstdint>

#include "dedloc/base/time.h"
#include "dedloc/transport/limits.h"

namespace dedloc::p2p {

// --- connections ---

// Handler tasks of one connection, ended streams whose task is still unwinding included.
inline constexpr std::size_t stream_tasks_max = 2048;
// When a second connection to the same peer appears, the first must prove that it is alive.
inline constexpr Duration duplicate_probe_answer_max = 3s;
// Encrypted and written at once; a control frame waits behind no more than this much bulk data.
inline constexpr std::size_t write_batch_bytes_max = 128u << 10;
// On a slow line as much as it takes in this time, and no less than a frame.
inline constexpr Duration write_batch_time = 15ms;
inline constexpr std::size_t write_batch_bytes_start = 32u << 10;
inline constexpr std::size_t write_batch_bytes_min = transport::frame_bytes_min;
// Read at once: an idle connection holds the smaller buffer, a busy one grows to the larger.
inline constexpr std::size_t read_buffer_bytes_min = 8u << 10;
inline constexpr std::size_t read_buffer_bytes_max = 256u << 10;
// A batch that the peer's machine does not take within this time ends the connection
// (128 KiB in 60 s: anything slower is of no use).
inline constexpr Duration write_stall_max = 60s;
// A connection costs some 25 KB when idle (./bench.sh stream): 4,096 of them 100 MB.
inline constexpr std::size_t connections_max = 4096;
// Without a stream for so long, one that nobody needs is closed (connection_trimmer.cpp); looked at
// so often.
inline constexpr Duration connection_idle_max = 10min;
inline constexpr Duration idle_look_interval = 30s;
inline constexpr std::size_t dials_max = 128;
// Two connections between one pair may exist while one of them drains.
inline constexpr std::size_t connections_per_peer_max = 4;
// The connection that lost against its twin closes after this long without a stream.
inline constexpr Duration drain_idle = 2s;

// --- strangers (stranger_budget.h): nobody protects the connection to them ---
// Costs of a question to the network thread, stated: a handshake (an X25519 exchange, two
// signatures made or checked, a certificate read), an inbound stream with its negotiation, and
// what is answered on it beyond that.
inline constexpr Duration handshake_cost = 1ms;
inline constexpr Duration stream_cost = 200us;
inline constexpr Duration answer_cost = 100us;
inline constexpr Duration kad_answer_cost = 300us;
inline constexpr Duration ping_cost = 30us;
inline constexpr Duration read_cost = 5us;
inline constexpr Duration frame_cost = 1us;
inline constexpr std::size_t stranger_meters_max = 4096;
// A pause ends after this, whoever is still beyond its share, so that nobody starves for ever.
inline constexpr Duration stranger_pause_max = 2s;
// Streams that a stranger may have open at once: hello, identify, a question or two.
inline constexpr std::size_t stranger_streams_max = 64;
// Connections to strangers: in all, and from one address and one network; beyond it the one that
// was unused longest makes room. A school behind one address that joins at once has places for
// as long as its hellos take: members do not count.
inline constexpr std::size_t stranger_connections_max = 1024;
inline constexpr std::size_t stranger_connections_per_address_max = 64;
inline constexpr std::size_t stranger_connections_per_network_max = 256;
// Strangers have one part in so many of the bytes that a host may have received or queued for all
// (above), and each a little always.
inline constexpr std::size_t stranger_bytes_part = 8;
inline constexpr std::size_t stranger_share_bytes_min = 16u << 10;
// A stranger's call that is announced and does not come.
inline constexpr Duration stranger_request_max = 15s;
// Freed memory is given back to the system after so many strangers have gone, looked at every
// idle_look_interval.
inline constexpr std::size_t strangers_gone_max = 32;

// --- the machine's memory ---
// Shares of what the process may have: for bytes received and for bytes queued. Never less than
// host_bytes_min, which a run of small models needs.
inline constexpr std::uint64_t received_part_of_memory = 8;
inline constexpr std::uint64_t queued_part_of_memory = 8;
inline constexpr std::size_t host_bytes_min = 32u << 20;
// A connection to a stranger with its buffers, and what of memory all of them may take.
inline constexpr std::size_t stranger_connection_bytes = 128u << 10;
inline constexpr std::uint64_t strangers_part_of_memory = 32;
inline constexpr std::size_t stranger_connections_min = 64;

// --- dialling ---
inline constexpr std::size_t addresses_per_peer_max = 16;
inline constexpr std::size_t address_book_peers_max = 4096;
// A part of those may have hearsay addresses alone: connected strangers, and peers that others
// named. What a stranger says of itself is bounded in bytes, too.
inline constexpr std::size_t hearsay_peers_max = 512;
inline constexpr std::size_t hearsay_bytes_per_peer_max = 1u << 10;
inline constexpr Duration dial_max = 15s;
inline constexpr Duration dial_stagger = 100ms;
inline constexpr Duration dial_backoff_min = 200ms;
inline constexpr Duration dial_backoff_max = 5s;

// --- protocols ---
inline constexpr std::size_t identify_message_bytes_max = 8u << 10;
inline constexpr std::size_t identify_messages_max = 10;
inline constexpr std::size_t identify_pushes_per_peer_max = 2;  // being read at the same time
// Between our answer and the end of its stream, unless the other side ends first: js-libp2p 3 loses
// an answer that comes together with the negotiation's echo and the end.
inline constexpr Duration identify_end_pause = 50ms;
// rust-libp2p refuses more than 4 KiB: we leave out addresses and protocols beyond it.
inline constexpr std::size_t identify_sent_bytes_max = 4096;
// Protocols of a peer that are remembered, as it says it speaks them. A protocol left out is asked
// for when it is needed.
inline constexpr std::size_t protocols_per_peer_max = 256;
inline constexpr std::size_t protocols_bytes_per_peer_max = 16u << 10;
inline constexpr Duration identify_push_pause = 100ms;  // changes within it are told together
inline constexpr std::size_t agent_bytes_max = 128;     // kept of what a peer says it is
inline constexpr std::size_t ping_streams_per_peer_max = 2;
inline constexpr Duration ping_idle_max = 60s;
// FIND_NODE (libp2p specs/kad-dht). What a server reads, and what it may be asked on one stream.
inline constexpr std::size_t kad_request_bytes_max = 4u << 10;
inline constexpr std::size_t kad_requests_per_stream_max = 1024;
inline constexpr std::size_t kad_streams_per_peer_max = 8;
inline constexpr Duration kad_idle_max = 60s;
// A server's answer: twenty peers with few addresses each, and no long names.
inline constexpr std::size_t kad_sent_bytes_max = 4u << 10;
inline constexpr std::size_t kad_sent_addresses_max = 8;   // of the peer that is asked for
inline constexpr std::size_t kad_named_addresses_max = 2;  // of each other
inline constexpr std::size_t kad_sent_address_bytes_max = 128;
// A client reads this much: 64 peers of 16 addresses and more.
inline constexpr std::size_t kad_answer_bytes_max = 256u << 10;
// A look-up asks so many peers in all and at once (alpha), so long each and together.
inline constexpr std::size_t kad_queries_max = 24;
inline constexpr std::size_t kad_queries_at_once_max = 3;
inline constexpr Duration kad_query_max = 3s;
inline constexpr Duration kad_search_max = 10s;
// Peers that nobody knew are not looked for again before this has passed.
inline constexpr Duration kad_missed_pause = 10s;
inline constexpr std::size_t kad_missed_max = 1024;
// A request that does not come, and an answer that is not taken.
inline constexpr Duration call_request_max = 60s;
inline constexpr Duration call_answer_max = 60s;
inline constexpr std::size_t handlers_max = 256;            // methods that this host offers
inline constexpr std::size_t handlers_per_peer_max = 1024;  // running for one peer: all its streams
// An error's text on the wire; longer ones are cut.
inline constexpr std::size_t error_text_bytes_max = 4096;

// --- circuit relay v2 (libp2p specs/relay) ---
// Reservations of one relay, and of peers with one IP address (a school behind one NAT; of IPv6,
// one /64). When all are taken, an address that has few takes one of the address that has most.
inline constexpr std::size_t relay_reservations_max = 512;
inline constexpr std::size_t relay_reservations_per_ip_max = 64;
// Circuits through one relay, and of one peer at either end: 16 as everywhere, times the peers of a
// small collaboration.
inline constexpr std::size_t relay_circuits_max = 2048;
inline constexpr std::size_t relay_circuits_per_peer_max = 64;
// Circuits from one address, as above: others find room, too.
inline constexpr std::size_t relay_circuits_per_ip_max = relay_circuits_max / 2;
// Circuits of those who are no members yet, at a relay for members: a hello, the run file, a
// tokenizer. Whoever has become one meanwhile is limited no longer.
inline constexpr std::size_t relay_introductions_max = 64;
inline constexpr std::size_t relay_introductions_per_ip_max = 8;
inline constexpr Duration relay_introduction_duration_max = std::chrono::minutes(10);
inline constexpr std::uint64_t relay_introduction_bytes_max = 64u << 20;
inline constexpr std::uint64_t relay_introduction_bytes_per_s_max = 256u << 10;
// A circuit ends after this long or this many bytes in one direction; whoever still needs it dials
// again. A gradient of 100 MB a minute fits.
inline constexpr Duration relay_circuit_duration_max = std::chrono::hours(2);
inline constexpr std::uint64_t relay_circuit_bytes_max = std::uint64_t{16} << 30;
// Copied at once; beside it a circuit holds what the two windows let in.
inline constexpr std::size_t relay_buffer_bytes_max = 64u << 10;
inline constexpr Duration relay_message_wait_max = 15s;
// A reservation's life that we accept: shorter would be all renewing.
inline constexpr Duration relay_reservation_life_min = 2s;
// No longer than relays give: it is told as a time of the relay's clock, and ours may be days
// behind. Renewing early costs a message.
inline constexpr Duration relay_reservation_life_max = std::chrono::hours(1);
// Relays that we keep reservations at: when one dies, the other still leads to us.
inline constexpr std::size_t relays_used_max = 2;
// Addresses that we tell of ourselves for each of them: of both families where it has both, as
// those who look for us may have one only.
inline constexpr std::size_t addresses_per_relay_max = 3;
inline constexpr std::size_t addresses_per_relay_and_family_max = 2;

// --- hole punching (libp2p specs/relay/DCUtR) ---
inline constexpr int punch_attempts_max = 3;
inline constexpr Duration punch_attempt_max = 3s;
inline constexpr std::size_t punch_addresses_max = 8;
inline constexpr std::size_t punches_max = 64;  // at the same time
inline constexpr Duration punch_stream_max = 30s;
// Direct dialling of the other side's public addresses before we punch.
inline constexpr Duration reversal_max = 3s;

// --- AutoNAT v1 (libp2p specs/autonat) ---
inline constexpr std::size_t autonat_addresses_max = 16;
inline constexpr Duration autonat_dial_max = 15s;
inline constexpr std::size_t autonat_dials_per_minute_max = 30;
inline constexpr std::size_t autonat_dials_per_peer_per_minute_max = 3;
// Observed addresses that are remembered, one an observer.
inline constexpr std::size_t observers_max = 32;

// --- port mapping (port_mappings.h) ---
// Asked of the router, and renewed at half of it. Short, because a killed process leaves it behind.
inline constexpr Duration mapping_lease_wish = std::chrono::minutes(20);
// A lease that the router says counts between these.
inline constexpr Duration mapping_lease_min = std::chrono::minutes(1);
inline constexpr Duration mapping_lease_max = std::chrono::hours(24);
// A question to the router; UPnP takes its time.
inline constexpr Duration mapping_answer_max = 10s;
// When the host stops: for an answer that is on its way, and for closing the port again.
inline constexpr Duration mapping_close_wait_max = 500ms;
inline constexpr Duration mapping_removal_max = 2s;
// Between questions that failed, doubling: a router that starts is found soon, one that speaks
// neither protocol costs a small process now and then.
inline constexpr Duration mapping_retry_min = 10s;
inline constexpr Duration mapping_retry_max = std::chrono::minutes(15);
// How soon another network is noticed.
inline constexpr Duration mapping_look_pause_max = 30s;
// A peer that finds the port closed makes us ask again no sooner.
inline constexpr Duration mapping_doubt_pause_min = std::chrono::minutes(1);

}  // namespace dedloc::p2p
