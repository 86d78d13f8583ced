// hivemind's DHT messages: rpc_ping, rpc_store, rpc_find.
//
// Field 1 is an access token (RequestAuthInfo / ResponseAuthInfo). It is kept as opaque bytes: an
// open run leaves it empty; who authorises, reads and fills it.
// An absent `peer` means "do not add me to your table", an empty one "I am in client mode".
//
// Source: hivemind/proto/dht.proto; golden bytes in tests/vectors. Errors: bad_input (also when a
// list is longer than its _max). Equal lengths of parallel lists are the DHT's to check.
// Thread: any.

#pragma once
#include <optional>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/fields.h"
#include "dedloc/wire/message.h"

namespace dedloc::wire {

inline constexpr std::size_t dht_node_id_bytes = 20;
// A node that takes over keys stores all of them by one call; 4 MiB bound the call anyway.
inline constexpr std::size_t dht_store_items_max = 8192;
inline constexpr std::size_t dht_find_keys_max = 256;
inline constexpr std::size_t dht_neighbours_max = 256;

// dedloc's own fields (hivemind skips them): where a peer can be dialled. hivemind's daemon finds
// that out through libp2p's other DHT.
inline constexpr std::size_t dht_addresses_max = 8;

struct PeerAddresses {
    std::vector<std::string> addresses;  // multiaddrs without /p2p/<id>

    friend bool operator==(const PeerAddresses&, const PeerAddresses&) = default;

    DEDLOC_FIELDS((addresses, dht_addresses_max))
};

struct NodeInfo {
    Bytes node_id;                            // 20 bytes, or empty in client mode
    std::vector<std::string> addresses = {};  // dedloc's own field

    friend bool operator==(const NodeInfo&, const NodeInfo&) = default;

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.node_id);
        visit(101, self.addresses, dht_addresses_max);
    }
};

struct PingRequest {
    std::optional<Bytes> auth;
    std::optional<NodeInfo> peer;
    bool validate = false;  // "and ping me back"

    DEDLOC_FIELDS(auth, peer, validate)
};

struct PingResponse {
    std::optional<Bytes> auth;
    std::optional<NodeInfo> peer;
    double dht_time = 0;     // seconds since 1970; 0: not said
    bool available = false;  // the caller could be pinged back

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.auth);
        visit(2, self.peer);
        visit(4, self.dht_time);
        visit(5, self.available);
    }
};

struct StoreRequest {
    std::optional<Bytes> auth;
    std::vector<Bytes> keys;  // 20 bytes each
    // MessagePack nil (c0): a plain value; empty: the value is a whole dictionary; else the
    // subkey's MessagePack.
    std::vector<Bytes> subkeys;
    std::vector<Bytes> values;
    std::vector<double> expiration_times;
    std::vector<bool> in_cache;
    std::optional<NodeInfo> peer;

    DEDLOC_FIELDS(auth,
                  (keys, dht_store_items_max),
                  (subkeys, dht_store_items_max),
                  (values, dht_store_items_max),
                  (expiration_times, dht_store_items_max),
                  (in_cache, dht_store_items_max),
                  peer)
};

struct StoreResponse {
    std::optional<Bytes> auth;
    std::vector<bool> store_ok;
    std::optional<NodeInfo> peer;

    DEDLOC_FIELDS(auth, (store_ok, dht_store_items_max), peer)
};

struct FindRequest {
    std::optional<Bytes> auth;
    std::vector<Bytes> keys;
    std::optional<NodeInfo> peer;

    DEDLOC_FIELDS(auth, (keys, dht_find_keys_max), peer)
};

enum class FindType : std::uint32_t { not_found = 0, regular = 1, dictionary = 2 };

struct FindResult {
    FindType type = FindType::not_found;
    Bytes value;
    double expiration_time = 0;
    std::vector<Bytes> nearest_node_ids;
    std::vector<Bytes> nearest_peer_ids;
    std::vector<PeerAddresses> nearest_addresses =
        {};  // dedloc's own field; as many as ids, or none

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.type);
        visit(2, self.value);
        visit(3, self.expiration_time);
        visit(4, self.nearest_node_ids, dht_neighbours_max);
        visit(5, self.nearest_peer_ids, dht_neighbours_max);
        visit(101, self.nearest_addresses, dht_neighbours_max);
    }
};

struct FindResponse {
    std::optional<Bytes> auth;
    std::vector<FindResult> results;  // one a key, in order
    std::optional<NodeInfo> peer;

    DEDLOC_FIELDS(auth, (results, dht_find_keys_max), peer)
};

}  // namespace dedloc::wire
