#include "dedloc/dht/storage.h"

#include <algorithm>
#include <cmath>

namespace dedloc::dht {

namespace {

std::size_t charge_of(std::size_t subkey, std::size_t value) {
    return dht_id_bytes + subkey + value + record_overhead_bytes;
}

std::size_t charge_of(const std::optional<Bytes>& subkey, const Expiring& item) {
    return charge_of(subkey ? subkey->size() : 0, item.value.size());
}

}  // namespace

WallSeconds Stored::expiration() const {
    if (regular) return regular->expiration;
    WallSeconds latest = 0;
    for (const auto& [subkey, item] : dictionary) latest = std::max(latest, item.expiration);
    return latest;
}

Ok Storage::check_sizes(std::size_t subkey,
                        std::size_t value,
                        WallSeconds expiration,
                        WallSeconds now) const {
    if (!std::isfinite(expiration) || expiration <= now)
        return make_error(ErrorKind::bad_input, "the record is expired already");
    if (expiration > now + limits_.ahead_max)
        return make_error(
            ErrorKind::bad_input, "the record expires more than {} s ahead", limits_.ahead_max);
    if (value > limits_.value_bytes_max || subkey > limits_.subkey_bytes_max)
        return make_error(ErrorKind::bad_input,
                          "a record's value may have {} bytes and its subkey {}",
                          limits_.value_bytes_max,
                          limits_.subkey_bytes_max);
    return {};
}

// `freed`: what the record to be replaced gives back.
Ok Storage::check_room(const PeerId& owner,
                       std::size_t bytes,
                       const Usage& freed,
                       bool same_owner) const {
    const auto too_much =
        [bytes](Usage used, const Usage& back, std::size_t records_max, std::size_t bytes_max) {
            return used.records - back.records + 1 > records_max ||
                   used.bytes - back.bytes + bytes > bytes_max;
        };
    if (too_much(total_, freed, limits_.records_max, limits_.bytes_max))
        return make_error(ErrorKind::overloaded, "this node's storage is full");
    if (owner.is_empty()) return {};
    const auto used = usage_.find(owner);
    if (too_much(used == usage_.end() ? Usage{} : used->second,
                 same_owner ? freed : Usage{},
                 limits_.records_per_owner_max,
                 limits_.bytes_per_owner_max))
        return make_error(
            ErrorKind::overloaded, "peer {} has used its share of storage", owner.short_text());
    return {};
}

Ok Storage::store(
    const DhtId& key, Bytes value, WallSeconds expiration, const PeerId& owner, WallSeconds now) {
    remove_expired(now);
    DEDLOC_TRY_VOID(check_sizes(0, value.size(), expiration, now));
    auto entry = entries_.find(key);
    Usage freed;
    bool same_owner = false;
    if (entry != entries_.end()) {
        const Stored& stored = entry->second.stored;
        if (stored.expiration() >= expiration)
            return make_error(ErrorKind::conflict, "a record that expires later is there");
        if (stored.regular) {
            freed = {.records = 1, .bytes = charge_of(std::nullopt, *stored.regular)};
            same_owner = entry->second.owners.at(std::nullopt) == owner;
        }
    }
    // A dictionary that is replaced is not counted as freed: rare, and on the safe side.
    DEDLOC_TRY_VOID(check_room(owner, charge_of(0, value.size()), freed, same_owner));
    if (entry != entries_.end()) erase_all(entry);
    charge(owner, charge_of(0, value.size()));
    Entry& added = entries_[key];
    added.stored.regular = Expiring{.value = std::move(value), .expiration = expiration};
    added.owners.emplace(std::nullopt, owner);
    by_expiration_.emplace(expiration, key, std::nullopt);
    return {};
}

Ok Storage::store_subkey(const DhtId& key,
                         Bytes subkey,
                         Bytes value,
                         WallSeconds expiration,
                         const PeerId& owner,
                         WallSeconds now) {
    remove_expired(now);
    DEDLOC_TRY_VOID(check_sizes(subkey.size(), value.size(), expiration, now));
    auto entry = entries_.find(key);
    Usage freed;
    bool same_owner = false;
    bool replaces = false;
    if (entry != entries_.end()) {
        const Stored& stored = entry->second.stored;
        if (stored.regular && stored.regular->expiration >= expiration)
            return make_error(ErrorKind::conflict, "a regular value that expires later is there");
        const auto old = stored.dictionary.find(subkey);
        replaces = old != stored.dictionary.end();
        if (replaces && old->second.expiration >= expiration)
            return make_error(ErrorKind::conflict, "a record that expires later is there");
        if (replaces) {
            freed = {.records = 1, .bytes = charge_of(subkey, old->second)};
            same_owner = entry->second.owners.at(subkey) == owner;
        } else if (stored.dictionary.size() >= limits_.subkeys_max) {
            return make_error(ErrorKind::overloaded, "the dictionary is full");
        }
    }
    const std::size_t bytes = charge_of(subkey.size(), value.size());
    DEDLOC_TRY_VOID(check_room(owner, bytes, freed, same_owner));
    if (entry != entries_.end() && entry->second.stored.regular)
        erase_all(entry);
    else if (replaces)
        erase(entry, subkey);
    charge(owner, bytes);
    Entry& added = entries_[key];
    by_expiration_.emplace(expiration, key, subkey);
    added.owners.emplace(subkey, owner);
    added.stored.dictionary.emplace(std::move(subkey),
                                    Expiring{.value = std::move(value), .expiration = expiration});
    return {};
}

const Stored* Storage::find(const DhtId& key, WallSeconds now) {
    remove_expired(now);
    const auto entry = entries_.find(key);
    return entry == entries_.end() ? nullptr : &entry->second.stored;
}

void Storage::remove_expired(WallSeconds now) {
    while (!by_expiration_.empty()) {
        const auto& [expiration, key, subkey] = *by_expiration_.begin();
        if (expiration > now) return;
        const auto entry = entries_.find(key);
        DEDLOC_CHECK(entry != entries_.end());
        const Subkey which = subkey;
        erase(entry, which);
    }
}

std::vector<DhtId> Storage::keys() const {
    std::vector<DhtId> keys;
    keys.reserve(entries_.size());
    for (const auto& [key, entry] : entries_) keys.push_back(key);
    return keys;
}

std::size_t Storage::records_of(const PeerId& owner) const {
    const auto found = usage_.find(owner);
    return found == usage_.end() ? 0 : found->second.records;
}

void Storage::charge(const PeerId& owner, std::size_t bytes) {
    total_.records += 1;
    total_.bytes += bytes;
    if (owner.is_empty()) return;
    Usage& usage = usage_[owner];
    usage.records += 1;
    usage.bytes += bytes;
}

void Storage::release(const PeerId& owner, std::size_t bytes) {
    total_.records -= 1;
    total_.bytes -= bytes;
    if (owner.is_empty()) return;
    const auto usage = usage_.find(owner);
    DEDLOC_CHECK(usage != usage_.end() && usage->second.bytes >= bytes);
    usage->second.records -= 1;
    usage->second.bytes -= bytes;
    if (usage->second.records == 0) usage_.erase(usage);
}

// Erases one record, and its key with the last one.
void Storage::erase(std::map<DhtId, Entry>::iterator entry, const Subkey& subkey) {
    const DhtId key = entry->first;
    Stored& stored = entry->second.stored;
    const Expiring& item = subkey ? stored.dictionary.at(*subkey) : *stored.regular;
    const auto owner = entry->second.owners.find(subkey);
    DEDLOC_CHECK(owner != entry->second.owners.end());
    release(owner->second, charge_of(subkey, item));
    by_expiration_.erase({item.expiration, key, subkey});
    entry->second.owners.erase(owner);
    if (subkey)
        stored.dictionary.erase(*subkey);
    else
        stored.regular.reset();
    if (entry->second.owners.empty()) entries_.erase(entry);
}

void Storage::erase_all(std::map<DhtId, Entry>::iterator entry) {
    std::vector<Subkey> subkeys;
    for (const auto& [subkey, owner] : entry->second.owners) subkeys.push_back(subkey);
    for (const Subkey& subkey : subkeys) erase(entry, subkey);
}

void Storage::check_invariants() const {
    Usage total;
    for (const auto& [key, entry] : entries_) {
        const Stored& stored = entry.stored;
        DEDLOC_CHECK(!stored.regular || stored.dictionary.empty());
        DEDLOC_CHECK(entry.owners.size() == stored.dictionary.size() + (stored.regular ? 1 : 0));
        DEDLOC_CHECK(!entry.owners.empty());
        if (stored.regular) total.bytes += charge_of(std::nullopt, *stored.regular);
        for (const auto& [subkey, item] : stored.dictionary) total.bytes += charge_of(subkey, item);
        total.records += entry.owners.size();
    }
    DEDLOC_CHECK(total.records == total_.records && total.bytes == total_.bytes);
    DEDLOC_CHECK(by_expiration_.size() == total.records);
    DEDLOC_CHECK(total.records <= limits_.records_max && total.bytes <= limits_.bytes_max);
}

}  // namespace dedloc::dht
