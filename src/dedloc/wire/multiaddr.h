// Multiaddr: a network address that says how to use it: "/ip4/10.0.0.1/tcp/4001/p2p/12D3KooW…".
//
// Binary: a sequence of (uvarint code, value); values of unfixed size have a uvarint length.
// An address with a code that is not in the table is an error of that address alone: a list of
// addresses goes on without it (known_multiaddrs).
//
// Source: multiformats/multiaddr, libp2p specs/addressing. Thread: any.
// Errors: bad_input; unsupported for codes and names that are not known.

#pragma once
#include <compare>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/peer_id.h"

namespace dedloc::wire {

inline constexpr std::size_t multiaddr_bytes_max = 1024;
inline constexpr std::size_t multiaddr_parts_max = 16;

enum class MultiaddrCode : std::uint32_t {
    ip4 = 4,
    tcp = 6,
    ip6 = 41,
    ip6zone = 42,
    dns = 53,
    dns4 = 54,
    dns6 = 55,
    dnsaddr = 56,
    udp = 273,
    webrtc_direct = 280,
    webrtc = 281,
    p2p_circuit = 290,
    unix_path = 400,
    p2p = 421,
    tls = 448,
    sni = 449,
    noise = 454,
    quic = 460,
    quic_v1 = 461,
    webtransport = 465,
    certhash = 466,
    ws = 477,
    wss = 478,
    http = 480,
};

struct MultiaddrPart {
    MultiaddrCode code{};
    Bytes value;  // without its length: 4 bytes of IPv4, 2 of a port, a name's letters, …

    friend auto operator<=>(const MultiaddrPart&, const MultiaddrPart&) = default;
};

class Multiaddr {
  public:
    Multiaddr() = default;  // empty: no address

    static Result<Multiaddr> from_text(std::string_view text);
    static Result<Multiaddr> from_bytes(ByteView bytes);
    // /ip4|ip6|dns/<host>/tcp/<port>: `host` is an IP address or a name. "[::1]" is read too.
    static Result<Multiaddr> tcp(std::string_view host, std::uint16_t port);

    std::string text() const;
    Bytes bytes() const;
    const std::vector<MultiaddrPart>& parts() const { return parts_; }
    bool is_empty() const { return parts_.empty(); }

    // The IP address or name it begins with, as text without brackets; nullopt for others.
    std::optional<std::string> host() const;
    std::optional<std::uint16_t> tcp_port() const;  // of the first tcp part
    // The last /p2p: who is meant, also at the end of a relayed address.
    std::optional<PeerId> peer() const;
    // Just host, tcp and perhaps /p2p: what our own transport dials. Excludes websockets, relays.
    bool is_plain_tcp() const;
    bool is_relayed() const;
    // The address before /p2p-circuit: the relay's, with its id. Nullopt if not relayed.
    std::optional<Multiaddr> relay() const;

    Multiaddr with_peer(const PeerId& peer) const;  // replaces a last /p2p part
    Multiaddr without_peer() const;                 // less a last /p2p part
    // <this>/p2p-circuit/p2p/<peer>, this being the relay's address with its id.
    Multiaddr circuit_to(const PeerId& peer) const;

    friend auto operator<=>(const Multiaddr&, const Multiaddr&) = default;

  private:
    Ok add(MultiaddrPart part);

    std::vector<MultiaddrPart> parts_;
};

// The addresses of a message that can be read; the others are left out.
std::vector<Multiaddr> known_multiaddrs(const std::vector<Bytes>& addresses);

}  // namespace dedloc::wire
