// Reachability: which addresses the world reaches us by, and what helps where it does not.
//
//   HostOptions options{…, .nat = {.relay = RelayServing::automatic}};
//   const NatReport report = nat_of(*host)->nat_report();   // for status, `check --network`
//
// A host learns what others see of it from identify (observed addresses), asks the router for a
// port (port_mappings.h), asks others to dial it back (AutoNAT, autonat.h), keeps reservations at
// relays while nobody can dial it (relay_reservations.h), turns relayed connections into direct
// ones (dcutr.h), and serves as a relay itself once it knows that it can be dialled
// (relay_service.h).
//
// Thread: the network thread.

#pragma once
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/peer_id.h"
#include "dedloc/p2p/host.h"
#include "dedloc/p2p/limits.h"

namespace dedloc::p2p {

// False for addresses that mean something else in every network: private, shared (RFC 6598),
// loopback, link-local, unique local, multicast, reserved; and for what is no IP literal.
// The blocks for documentation count as public: nobody routes them, so whoever has one stands in a
// test bed that plays the Internet.
bool is_public_address(std::string_view ip);

// The part of the Internet that one home or machine has for itself: an IPv4 address, or the /64 of
// an IPv6 address, within which privacy addresses come and go.
std::string subnet_of(const std::string& ip);

enum class RelayServing { automatic, always, never };
// A relay serves anybody, or peers that the host protects or was told to trust (the members
// of its run, and who has proved that it may become one). Others may open a circuit to a member for
// a few bytes (RelayLimits::introduction_…): that is how they join.
enum class RelayFor { members, anyone };

struct RelayLimits {
    Duration reservation_life = std::chrono::hours(1);
    std::size_t reservations = relay_reservations_max;
    std::size_t reservations_per_ip = relay_reservations_per_ip_max;
    std::size_t circuits = relay_circuits_max;
    std::size_t circuits_per_peer = relay_circuits_per_peer_max;
    std::size_t circuits_per_ip = relay_circuits_per_ip_max;
    Duration circuit_duration = relay_circuit_duration_max;  // 0: no limit
    std::uint64_t circuit_bytes = relay_circuit_bytes_max;   // per direction; 0: no limit
    // Circuits that were opened by somebody who is no member, where those are served alone.
    std::size_t introductions = relay_introductions_max;
    std::size_t introductions_per_ip = relay_introductions_per_ip_max;
    Duration introduction_duration = relay_introduction_duration_max;
    std::uint64_t introduction_bytes = relay_introduction_bytes_max;              // per direction
    std::uint64_t introduction_bytes_per_s = relay_introduction_bytes_per_s_max;  // all together
};

struct NatOptions {
    // automatic: once others have been seen to reach us.
    RelayServing relay = RelayServing::automatic;
    RelayFor relay_for = RelayFor::members;
    RelayLimits relay_limits{};
    bool use_relays = true;
    bool punch_holes = true;
    bool ask_reachability = true;  // AutoNAT, both sides
    bool map_ports = true;         // where the host was given a runtime::PortMapper
    std::function<bool(std::string_view ip)> is_public = is_public_address;
};

enum class Reachability { unknown, publicly, privately };
std::string_view to_string(Reachability reachability);

// How the connection that new streams use came to be.
enum class Path { none, direct, reversed, punched, relayed };
std::string_view to_string(Path path);

struct RelayUse {
    PeerId relay;
    std::vector<std::string> addresses;  // the relay's, without /p2p/<it>
};

struct RelayCounters {
    std::size_t reservations = 0;  // now
    std::size_t circuits = 0;      // now
    std::uint64_t circuits_begun = 0;
    std::uint64_t refused = 0;
    std::uint64_t bytes = 0;  // carried, both directions
};

struct NatReport {
    Reachability reachability = Reachability::unknown;
    std::string reason;                   // one sentence: what it was concluded from
    std::vector<std::string> interfaces;  // what we listen on, as multiaddrs
    std::vector<std::string> public_now;  // multiaddrs by which others reached us
    std::vector<std::string> observed;    // what others see of us: multiaddrs, newest first
    bool mapping_varies = false;          // a new port for every destination (symmetric NAT)
    std::string router;                   // one sentence: what it said to our wish for a port
    bool router_is_asked = false;         // and has not answered yet, for the first time
    std::string mapped;                   // the address it passes on to us, a multiaddr, or empty
    std::vector<RelayUse> relays;         // where we have reservations
    bool serves_as_relay = false;
    RelayCounters relay;
    std::uint64_t punches_tried = 0;  // peers, not attempts
    std::uint64_t punches_succeeded = 0;
    std::uint64_t reversals = 0;
};

class NatView {
  public:
    virtual ~NatView() = default;
    virtual NatReport nat_report() const = 0;
    virtual Path path_to(const PeerId& peer) const = 0;
    virtual bool is_punching(const PeerId& peer) const = 0;
};

// Null for hosts without a network of their own (sim::SimHost).
const NatView* nat_of(const Host& host);

}  // namespace dedloc::p2p
