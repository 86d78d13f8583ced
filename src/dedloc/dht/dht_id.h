// DhtId: a point of the DHT's 160-bit space, as hivemind's: keys and nodes are SHA-1 sums, distance
// is XOR, numbers are big-endian.
//
// Node ids of dedloc peers are bound to their PeerIds: sha1(peer id bytes). Foreign (hivemind)
// nodes choose theirs at random; they are told apart by that (routing_table.h).
//
// Source: docs/spec/dht.md. Thread: any.

#pragma once
#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "dedloc/base/bytes.h"
#include "dedloc/base/peer_id.h"
#include "dedloc/base/random.h"

namespace dedloc::dht {

inline constexpr std::size_t dht_id_bytes = 20;
inline constexpr int dht_id_bits = 160;

struct DhtId {
    std::array<std::uint8_t, dht_id_bytes> bytes{};

    // sha1 of the bytes themselves.
    static DhtId of_bytes(ByteView source);
    // The id that hivemind makes of a str key: sha1 of its MessagePack form.
    static DhtId of_text(std::string_view key);
    static DhtId of_peer(const PeerId& peer) { return of_bytes(peer.bytes()); }
    static DhtId random(Random& random);
    static Result<DhtId> from(ByteView bytes);  // bad_input unless 20 bytes

    ByteView view() const { return bytes; }
    std::string hex() const { return base::to_hex(bytes); }
    bool bit(int index) const {  // 0 is the most significant
        return (bytes[static_cast<std::size_t>(index) / 8] >> (7 - index % 8) & 1) != 0;
    }

    friend auto operator<=>(const DhtId&, const DhtId&) = default;
};

// The XOR distance, itself ordered as a number.
DhtId distance(const DhtId& a, const DhtId& b);
// True if a is strictly nearer to target than b is.
bool nearer(const DhtId& target, const DhtId& a, const DhtId& b);
// How many leading bits are equal; 160 if the ids are.
int common_prefix_bits(const DhtId& a, const DhtId& b);

}  // namespace dedloc::dht

template <>
struct std::hash<dedloc::dht::DhtId> {
    std::size_t operator()(const dedloc::dht::DhtId& id) const noexcept {
        std::size_t word = 0;
        std::memcpy(&word, id.bytes.data(), sizeof word);
        return word;
    }
};
