// libp2p's own Kademlia, as far as it finds peers: FIND_NODE of "/ipfs/kad/1.0.0". (hivemind's DHT
// is another one: dht_messages.h.)
//
// Source: libp2p specs/kad-dht. Records and providers are not ours: their fields are skipped.
// Errors: bad_input. Thread: any.

#pragma once
#include <string_view>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/fields.h"
#include "dedloc/wire/message.h"

namespace dedloc::wire {

inline constexpr std::string_view kad_protocol = "/ipfs/kad/1.0.0";
// k of the specification: how many peers an answer names.
inline constexpr std::size_t kad_closer_peers_max = 20;
// Go's servers answer with 20, older ones also with a few more.
inline constexpr std::size_t kad_received_peers_max = 64;
inline constexpr std::size_t kad_addresses_max = 64;

enum class KadType : std::uint32_t {
    put_value = 0,
    get_value = 1,
    add_provider = 2,
    get_providers = 3,
    find_node = 4,
    ping = 5,
};

enum class KadConnection : std::uint32_t {
    not_connected = 0,
    connected = 1,
    can_connect = 2,
    cannot_connect = 3,
};

struct KadPeer {
    Bytes id;  // bytes, because an id that cannot be read spoils only its own entry
    std::vector<Bytes> addresses = {};
    KadConnection connection = KadConnection::not_connected;

    DEDLOC_FIELDS(id, (addresses, kad_addresses_max), connection)
};

struct KadMessage {
    KadType type = KadType::put_value;
    Bytes key = {};  // of FIND_NODE: the bytes of a peer id
    std::vector<KadPeer> closer_peers = {};

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.type);
        visit(2, self.key);
        visit(8, self.closer_peers, kad_received_peers_max);
    }
};

}  // namespace dedloc::wire
