// DhtNode: the distributed table of a swarm. Stores records under keys at the nodes whose ids are
// nearest to them, and finds them again; every record expires.
//
// hivemind's semantics and wire format (docs/spec/dht.md), so that both kinds of peers
// share one table. Ours: node ids are sha1(PeerId), storage has quotas, records under a peer's
// subkey are signed by it (signed_record.h), requests and answers also carry addresses.
// Calls that go to one node at the same time travel together, several keys each; gets of one key
// share a look-up; a cached key that was read is fetched again before it expires.
//
//   DhtNode node(host, verifier, options);
//   node.start();
//   co_await node.bootstrap(peers, deadline);       // their addresses are known to the host
//   co_await node.store_signed(signer, key, payload, expiration, deadline);
//   auto found = co_await node.get(key, Freshness::latest, deadline);
//   co_await node.stop();
//
// Republishing before records expire is the caller's business. Expirations are in the table's time,
// wall_now(), which this computer's clock need not show (table_clock.h).
// Errors: timeout, peer_gone (no node answered), conflict (newer records are there),
//         overloaded (quotas), denied (a forged record), bad_input.
// Cost: a lookup asks about beam_size nodes, call_timeout for each that is dead, workers at a time.
// Lifetime: host, verifier and whoever awaits a Task of the node: longer than the node; stop() it
//           before it is destroyed. Cancel: a store may have reached some replicas; safe to repeat.
// Thread: the network thread.

#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "dedloc/dht/routing_table.h"
#include "dedloc/dht/signed_record.h"
#include "dedloc/dht/storage.h"
#include "dedloc/dht/validators.h"
#include "dedloc/p2p/host.h"

namespace dedloc::dht {

inline constexpr char ping_method[] = "DHTProtocol.rpc_ping";
inline constexpr char store_method[] = "DHTProtocol.rpc_store";
inline constexpr char find_method[] = "DHTProtocol.rpc_find";
inline constexpr char watch_method[] = "/dedloc/table/1/watch";

struct DhtOptions {
    RoutingOptions routing;
    StorageLimits storage;
    StorageLimits cache{.records_max = 20'000, .bytes_max = 64u << 20};
    std::size_t num_replicas = 5;
    std::size_t beam_size = 20;
    std::size_t workers = 4;  // calls of one lookup at a time
    // Bounds the look-up of a first bootstrap: each node that is asked costs both sides a
    // handshake. Stores look among all: 64 nodes that began together misplaced 6 of 1,000 records
    // with 8.
    std::size_t join_beam = 3;
    Duration places_known_for = 20s;  // where a key was stored; 0: looked up each time
    std::size_t cache_nearest = 1;
    bool client_mode = false;  // asks, but answers nobody and is in nobody's table
    Duration call_timeout = 3s;
    double cache_refresh_before_s = 5;  // 0: cached keys are left to expire
    Duration refresh_period{0};         // of the table, by look-ups; 0: never
    // A rule for every record beside that; signs what is stored here, and takes signatures off
    // what is found. Null: nothing.
    std::shared_ptr<const RecordValidator> validator{};
};

struct DhtItem {
    DhtId key;
    std::optional<Bytes> subkey;  // MessagePack; empty: a regular value
    Bytes value;                  // MessagePack, for hivemind's peers to read
    WallSeconds expiration = 0;
};

struct StoreReport {
    std::size_t accepted = 0;  // replicas that have it now
    std::size_t refused = 0;   // answered, and did not take it
};

struct BootstrapReport {
    std::size_t answered = 0;
    double clock_difference_s = 0;  // the table's time minus ours
};

enum class Freshness {
    any,     // the first record found that has not expired, our own copies included
    latest,  // ask all nodes near the key and take the newest, dictionaries merged
};

// Where a key belongs, and what it took to find out.
struct LocateReport {
    std::vector<Contact> nearest;  // that answered
    std::size_t asked = 0;
    std::size_t hops = 0;
};

// Told all that is known at the key, when that has changed: new records, and later expirations.
using ChangeListener = std::function<void(const Stored& now)>;

class DhtNode {
  public:
    DhtNode(p2p::Host& host, const security::Verifier& verifier, DhtOptions options = {});
    ~DhtNode();
    DhtNode(const DhtNode&) = delete;
    DhtNode& operator=(const DhtNode&) = delete;

    const DhtId& id() const;
    void start();
    Task<void> stop();

    // peer_gone: nobody answered.
    Task<Result<BootstrapReport>> bootstrap(std::vector<PeerId> peers, TimePoint deadline);

    // Bootstraps in the background until somebody answers, and looks after the first peers from
    // then on: two swarms that began apart become one as soon as either reaches the other's.
    void stay_joined(std::vector<PeerId> peers);

    // Ok when at least one replica took it.
    Task<Result<StoreReport>> store(DhtItem item, TimePoint deadline);
    // As many results as items, in order. Items of one key travel together.
    Task<std::vector<Result<StoreReport>>> store_many(std::vector<DhtItem> items,
                                                      TimePoint deadline);
    // Under the signer's own subkey of `key`.
    Task<Result<StoreReport>> store_signed(const security::Signer& signer,
                                           DhtId key,
                                           Bytes payload,
                                           WallSeconds expiration,
                                           TimePoint deadline);

    // nullopt: nothing is there. Every record was verified.
    Task<Result<std::optional<Stored>>> get(DhtId key, Freshness freshness, TimePoint deadline);
    Task<std::vector<Result<std::optional<Stored>>>> get_many(std::vector<DhtId> keys,
                                                              Freshness freshness,
                                                              TimePoint deadline);

    // Watches a key: the nodes that hold it push its changes (watches.h). The listener is called on
    // the network thread, at first with what is there, if anything; never again once the Watching
    // is destroyed, which may happen before or after the node is.
    class Watching;
    std::unique_ptr<Watching> watch(DhtId key, ChangeListener listener);

    Task<LocateReport> locate(DhtId key, TimePoint deadline);
    // Nodes of the whole table, as many as there are up to nodes_max. Looks at halves of the id
    // space, and halves of these, until each is known: about one look-up for ten nodes.
    Task<std::vector<Contact>> list_nodes(std::size_t nodes_max, TimePoint deadline);

    // Now, as the nodes of the table agree; our own clock's time before anybody has answered.
    WallSeconds wall_now() const;
    // The table's time minus what our own clock shows.
    double clock_difference_s() const;

    const RoutingTable& table() const;
    std::size_t records() const;   // stored here for others
    std::uint64_t forged() const;  // records refused because of their signature

    class Core;

  private:
    std::shared_ptr<Core> core_;
};

class DhtNode::Watching {
  public:
    virtual ~Watching() = default;
};

}  // namespace dedloc::dht
