// DhtNode's inside, shared by its handlers, calls and lookups. Not for other rooms.

#pragma once
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "dedloc/dht/key_places.h"
#include "dedloc/dht/node.h"
#include "dedloc/dht/table_clock.h"
#include "dedloc/runtime/event.h"
#include "dedloc/runtime/scope.h"
#include "dedloc/wire/dht_messages.h"

namespace dedloc::dht {

inline constexpr std::size_t call_items_max = 256;              // of our own store calls
inline constexpr std::size_t call_values_bytes_max = 1u << 20;  // likewise
inline constexpr std::size_t items_taken_max = 1024;  // of others': each may cost a verification
inline constexpr std::size_t answer_bytes_max = p2p::call_bytes_max - (64u << 10);
inline constexpr std::size_t address_bytes_max = 256;
inline constexpr std::size_t pings_max = 16;        // of old nodes, at a time
inline constexpr std::size_t newcomers_max = 1024;  // that wait to be given records
inline constexpr std::size_t keys_a_turn = 256;     // looked at before others may run
inline constexpr std::size_t keys_at_once = 32;     // of store_many and get_many
inline constexpr std::size_t refreshed_max = 1024;  // cached keys that are kept fresh
inline constexpr std::size_t banned_max = 1024;
inline constexpr Duration ban_min = 5s;
inline constexpr int ban_doublings_max = 6;
inline constexpr std::size_t remembered_max = 32;  // to join again through

inline constexpr char stopping_text[] = "this node stops";

// A look-up that others may wait for, too.
struct PendingGet {
    explicit PendingGet(runtime::Executor executor) : done(executor) {}
    std::optional<Result<std::optional<Stored>>> result;
    runtime::Event done;
};

class FindBatches;
class StoreBatches;
class Watches;

class DhtNode::Core : public std::enable_shared_from_this<DhtNode::Core> {
  public:
    Core(p2p::Host& host, const security::Verifier& verifier, DhtOptions options);
    ~Core();

    // --- handlers (handlers.cpp)
    Task<Result<Bytes>> on_ping(PeerId from, Bytes request);
    Result<Bytes> on_store(const PeerId& from, ByteView request);
    Result<Bytes> on_find(const PeerId& from, ByteView request);

    // --- calls (calls.cpp); a failure removes the node from the table
    Task<Result<wire::PingResponse>> call_ping(PeerId peer, bool validate, TimePoint deadline);
    // One flag an item: taken or not. Without batches: for those.
    Task<Result<std::vector<bool>>> send_store(PeerId peer,
                                               std::vector<DhtItem> items,
                                               bool in_cache,
                                               TimePoint deadline);

    // --- gets (gets.cpp)
    // Shares a look-up with whoever asks the same at the moment.
    Task<Result<std::optional<Stored>>> get(DhtId key, Freshness freshness, TimePoint deadline);
    Task<void> look_up(DhtId key,
                       Freshness freshness,
                       TimePoint deadline,
                       std::shared_ptr<PendingGet> pending);
    // Fetches again, before it expires, what was read from the cache.
    void refresh_later(const DhtId& key, WallSeconds expiration);
    Task<void> refresh_cached();
    Task<void> refresh_table();

    // --- who is there (calls.cpp)
    std::optional<wire::NodeInfo> own_info() const;
    // A peer said who it is, in a request or an answer.
    void note_info(const PeerId& from, const std::optional<wire::NodeInfo>& info, bool add);
    void note_seen(const Contact& contact);
    void note_failed(const PeerId& peer, const Error& error);
    void note_addresses(const PeerId& peer, const std::vector<std::string>& addresses);
    bool banned(const PeerId& peer) const;
    // A node that was cut off from everybody has an empty table: it tries to join again through
    // these.
    void remember(const Contact& contact);
    const std::deque<Contact>& remembered() const { return remembered_; }
    Task<void> ping_old(Contact contact);
    Task<void> replicate_to_newcomers();
    Task<void> replicate_to(Contact contact);
    // Whether a node that came just now should hold `key`, and we are the one to give it.
    bool concerns(const DhtId& key, const Contact& newcomer) const;

    // --- records
    std::optional<Stored> own_copy(const DhtId& key);  // the newer of storage and cache
    // Checks and puts one record; true if it is there now. An equal one that is there already
    // needs no second verification.
    bool put_record(Storage& into,
                    const DhtId& key,
                    ByteView subkey,
                    ByteView value,
                    WallSeconds expiration,
                    const PeerId& sender);
    // DhtOptions::validator's part: of what comes, of what we store, of what our user reads.
    bool is_valid(const DhtId& key, ByteView subkey, ByteView value, WallSeconds expiration);
    void sign(DhtItem& item) const;
    void strip(const DhtId& key, Stored& stored) const;
    // Puts all records of a find result.
    void put_result(Storage& into, const DhtId& key, const wire::FindResult& result);

    TimePoint call_deadline(TimePoint deadline) const {
        return std::min(deadline, host.clock().now() + options.call_timeout);
    }

    p2p::Host& host;
    const security::Verifier& verifier;
    DhtOptions options;
    TableClock clock;  // by which records expire
    DhtId id;
    RoutingTable table;
    Storage storage;
    Storage cache;
    runtime::Scope scope;
    bool started = false;
    bool stopped = false;
    std::uint64_t forged = 0;
    std::size_t pings = 0;
    std::deque<Contact> newcomers;
    bool replicating = false;
    struct Ban {
        TimePoint until{};
        int failures = 0;
    };
    std::map<PeerId, Ban> bans;
    std::deque<Contact> remembered_;  // the last that were lost, and the first peers
    bool joined = false;              // others were seen once: alone is cut off
    bool bootstrapped = false;        // once: the nearest know us
    KeyPlaces places;
    std::unique_ptr<FindBatches> finds;
    std::unique_ptr<StoreBatches> stores;
    std::unique_ptr<Watches> watches;
    std::map<std::pair<DhtId, Freshness>, std::shared_ptr<PendingGet>> pending_gets;
    std::map<DhtId, WallSeconds> to_refresh;  // keys of the cache that were read, by expiration
    bool refreshing = false;
};

// The wire form of an absent subkey: MessagePack nil.
inline const Bytes& nil_subkey() {
    static const Bytes nil{0xc0};
    return nil;
}

// All records of a key as items.
std::vector<DhtItem> items_of(const DhtId& key, const Stored& stored);

}  // namespace dedloc::dht
