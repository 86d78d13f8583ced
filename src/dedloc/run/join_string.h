// Join string: everything a newcomer needs to find a run and to know that it is the right one, in
// one piece of text that survives mail, chat and shells.
//
//   "dedloc1" ‖ base64url(message ‖ first 4 bytes of sha256(message))
//   message = wire::encode of {1 run, 2 secret, 3 peers {1 id, 2 addresses}, 4 certificate, 5 step,
//             6 authority, 7 code}
//
// Only letters, digits, '-' and '_'. Parsing forgives line breaks, blanks and quotes around and
// inside, because that is what copying does; the checksum catches the rest.
//
// The holder of the string may join: it carries the run secret. Not so in a run that lets in by
// invitation: its strings name the key that signs tokens, and a personal one has a code, which is
// good once. Errors: bad_input, for people.
// Cost: linear, at most join_string_bytes_max. Thread: any; pure.

#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/peer_id.h"
#include "dedloc/base/result.h"

namespace dedloc::run {

inline constexpr std::size_t join_string_bytes_max = 8192;  // fits a terminal line and a URL
// A join string is dialled by whoever is given it, and must not become a list of targets.
inline constexpr std::size_t join_peers_max = 8;
inline constexpr std::size_t join_hosts_max = 8;  // addresses of machines and relays, names
inline constexpr std::size_t join_addresses_per_peer_max = 8;
inline constexpr std::size_t join_address_bytes_max = 256;
inline constexpr std::size_t run_secret_bytes = 16;
inline constexpr std::size_t invitation_code_bytes = 16;

// A certificate that the giver of the string trusts: a newcomer believes no state without a chain
// of certificates from here.
struct Anchor {
    Digest certificate;
    std::uint64_t step = 0;
    friend bool operator==(const Anchor&, const Anchor&) = default;
};

struct JoinString {
    Digest run;                          // run_hash of the run file
    Bytes secret;                        // run_secret_bytes, or empty: an open run
    std::vector<std::string> addresses;  // multiaddrs ending in /p2p/<id>, best first
    std::optional<Anchor> anchor;
    PeerId authority{};  // of a run that lets in by invitation; else empty
    Bytes code{};        // of a personal string

    friend bool operator==(const JoinString&, const JoinString&) = default;
};

// The addresses of one peer are brought together, peers stay in order of their first address.
// An address that exceeds the limits or is no multiaddr with an id is left out (the best come
// first).
std::string to_text(const JoinString& join);

Result<JoinString> parse_join_string(std::string_view text);

// "/ip4/1.2.3.4/tcp/1/p2p/12D3…" → its two parts; bad_input if there is no id at the end.
struct PeerAddress {
    std::string address;  // without /p2p/
    PeerId peer;
};
Result<PeerAddress> split_peer_address(std::string_view multiaddr);

}  // namespace dedloc::run
