// Storage: the records a node keeps for the others, with expirations, bounded.
//
// A key holds either one regular value or a dictionary of subkeys, each with its own expiration;
// the later expiration wins, at equal ones what is there stays (docs/spec/dht.md). Subkeys
// and values are opaque bytes as they came from the wire.
//
// Limits: records and bytes in all and for each owner (the peer to whom a record is charged: who
// signed it, else who sent it), the size of a value, the entries of a dictionary, the time ahead.
// When full, the new record is refused (expired ones have gone before). Our own records (no owner)
// are not charged to a peer.
//
// Invariants: no expired record is ever returned; counts and bytes are those of what is stored.
// Cost: O(log records) a call. Thread: one. Time is a parameter.

#pragma once
#include <compare>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "dedloc/base/time.h"
#include "dedloc/dht/dht_id.h"

namespace dedloc::dht {

struct Expiring {
    Bytes value;
    WallSeconds expiration = 0;

    friend bool operator==(const Expiring&, const Expiring&) = default;
};

// A key holds exactly one of these two.
struct Stored {
    std::optional<Expiring> regular;
    std::map<Bytes, Expiring> dictionary;

    bool is_dictionary() const { return !regular.has_value(); }
    WallSeconds expiration() const;  // the latest
    friend bool operator==(const Stored&, const Stored&) = default;
};

struct StorageLimits {
    std::size_t records_max = 100'000;
    std::size_t bytes_max = 256u << 20;
    std::size_t records_per_owner_max = 20'000;
    std::size_t bytes_per_owner_max = 64u << 20;
    std::size_t value_bytes_max = 256u << 10;
    std::size_t subkey_bytes_max = 1024;
    std::size_t subkeys_max = 1024;  // in one dictionary
    WallSeconds ahead_max = 7 * 86400.0;
};

// Bytes charged for a record besides key, subkey and value.
inline constexpr std::size_t record_overhead_bytes = 64;

class Storage {
  public:
    explicit Storage(StorageLimits limits = {}) : limits_(limits) {}

    // Errors: bad_input   expired, too far ahead, or too large
    //         conflict    what is there expires later, or is a value of the other kind
    //         overloaded  a limit of records or bytes is reached
    Ok store(const DhtId& key,
             Bytes value,
             WallSeconds expiration,
             const PeerId& owner,
             WallSeconds now);
    Ok store_subkey(const DhtId& key,
                    Bytes subkey,
                    Bytes value,
                    WallSeconds expiration,
                    const PeerId& owner,
                    WallSeconds now);

    // nullptr: nothing, or expired. Valid until the next call that is not const.
    const Stored* find(const DhtId& key, WallSeconds now);

    void remove_expired(WallSeconds now);
    std::vector<DhtId> keys() const;  // sorted; call remove_expired first
    std::size_t records() const { return total_.records; }
    std::size_t bytes() const { return total_.bytes; }
    std::size_t records_of(const PeerId& owner) const;
    void check_invariants() const;

  private:
    struct Usage {
        std::size_t records = 0;
        std::size_t bytes = 0;
    };
    // The empty optional is the regular value.
    using Subkey = std::optional<Bytes>;
    struct Entry {
        Stored stored;
        std::map<Subkey, PeerId> owners;
    };

    Ok check_sizes(std::size_t subkey, std::size_t value, WallSeconds at, WallSeconds now) const;
    Ok check_room(const PeerId& owner,
                  std::size_t bytes,
                  const Usage& freed,
                  bool same_owner) const;
    void charge(const PeerId& owner, std::size_t bytes);
    void release(const PeerId& owner, std::size_t bytes);
    void erase(std::map<DhtId, Entry>::iterator entry, const Subkey& subkey);
    void erase_all(std::map<DhtId, Entry>::iterator entry);

    StorageLimits limits_;
    std::map<DhtId, Entry> entries_;
    std::set<std::tuple<WallSeconds, DhtId, Subkey>> by_expiration_;
    std::unordered_map<PeerId, Usage> usage_;
    Usage total_;
};

}  // namespace dedloc::dht
