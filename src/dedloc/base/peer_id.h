// PeerId: who a peer is. The multihash of its public key, as in libp2p (specs/peer-ids).
//
// How an id is derived from a key: security/identity.h. Text: base58btc ("12D3KooW…", "Qm…").

#pragma once
#include <compare>
#include <string>

#include "dedloc/base/bytes.h"

namespace dedloc::base {

inline constexpr std::size_t peer_id_bytes_max = 64;

std::string to_base58(ByteView bytes);
Result<Bytes> from_base58(std::string_view text);

class PeerId {
  public:
    PeerId() = default;  // nobody: is_empty()

    // bad_input unless `multihash` is identity (≤ 42 bytes of key) or sha2-256.
    static Result<PeerId> from_bytes(ByteView multihash);
    // base58btc, or CIDv1 in base32 ("bafz…").
    static Result<PeerId> from_text(std::string_view text);

    bool is_empty() const { return multihash_.empty(); }
    ByteView bytes() const { return as_bytes(multihash_); }
    std::string text() const { return to_base58(bytes()); }
    std::string short_text() const;  // last 6 letters, for people

    friend auto operator<=>(const PeerId&, const PeerId&) = default;

  private:
    // A std::string, because 38 bytes of Ed25519 id then compare and hash with the library's code.
    std::string multihash_;
    friend struct std::hash<PeerId>;
};

}  // namespace dedloc::base

namespace dedloc {
using base::PeerId;
}

template <>
struct std::hash<dedloc::base::PeerId> {
    std::size_t operator()(const dedloc::base::PeerId& id) const noexcept {
        return std::hash<std::string>{}(id.multihash_);
    }
};
