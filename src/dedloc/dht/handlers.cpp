// Handlers answer other nodes, and check records that come from them.

#include <algorithm>
#include <set>

#include "dedloc/base/log.h"
#include "dedloc/dht/watches.h"
#include "dedloc/wire/msgpack.h"

namespace dedloc::dht {

std::vector<DhtItem> items_of(const DhtId& key, const Stored& stored) {
    std::vector<DhtItem> items;
    if (stored.regular)
        items.push_back({.key = key,
                         .subkey = std::nullopt,
                         .value = stored.regular->value,
                         .expiration = stored.regular->expiration});
    for (const auto& [subkey, item] : stored.dictionary)
        items.push_back(
            {.key = key, .subkey = subkey, .value = item.value, .expiration = item.expiration});
    return items;
}

namespace {

// The record itself is there, not only a newer one.
bool holds_equal(const Stored* there, ByteView subkey, ByteView value, WallSeconds expiration) {
    if (!there) return false;
    const Expiring* item = nullptr;
    if (base::equal(subkey, nil_subkey())) {
        if (there->regular) item = &*there->regular;
    } else if (const auto found = there->dictionary.find(to_bytes(subkey));
               found != there->dictionary.end()) {
        item = &found->second;
    }
    return item && item->expiration == expiration && base::equal(item->value, value);
}

bool holds_newer(const Stored* there, ByteView subkey, WallSeconds expiration) {
    if (!there) return false;
    if (there->regular) return there->regular->expiration >= expiration;
    if (base::equal(subkey, nil_subkey())) return there->expiration() >= expiration;
    const auto found = there->dictionary.find(to_bytes(subkey));
    return found != there->dictionary.end() && found->second.expiration >= expiration;
}

wire::DhtDictionary to_wire(const Stored& stored, std::size_t bytes_max) {
    wire::DhtDictionary dictionary;
    std::size_t bytes = 0;
    for (const auto& [subkey, item] : stored.dictionary) {
        bytes += subkey.size() + item.value.size() + record_overhead_bytes;
        if (bytes > bytes_max) break;
        auto decoded = wire::decode_msgpack(subkey);
        if (!decoded) continue;  // not stored by put_record; on the safe side
        dictionary.latest_expiration_time =
            std::max(dictionary.latest_expiration_time, item.expiration);
        dictionary.entries.push_back({.subkey = *std::move(decoded),
                                      .value = item.value,
                                      .expiration_time = item.expiration});
    }
    return dictionary;
}

}  // namespace

bool DhtNode::Core::is_valid(const DhtId& key,
                             ByteView subkey,
                             ByteView value,
                             WallSeconds expiration) {
    if (!options.validator) return true;
    const Record record{.key = to_bytes(key.view()),
                        .subkey = to_bytes(subkey),
                        .value = to_bytes(value),
                        .expiration = expiration};
    if (options.validator->validate(record)) return true;
    ++forged;
    return false;
}

void DhtNode::Core::sign(DhtItem& item) const {
    if (!options.validator) return;
    item.value = options.validator->sign({.key = to_bytes(item.key.view()),
                                          .subkey = item.subkey ? *item.subkey : nil_subkey(),
                                          .value = item.value,
                                          .expiration = item.expiration});
}

void DhtNode::Core::strip(const DhtId& key, Stored& stored) const {
    if (!options.validator) return;
    const auto strip_one = [&](const Bytes& subkey, Expiring& item) {
        item.value = options.validator->strip({.key = to_bytes(key.view()),
                                               .subkey = subkey,
                                               .value = item.value,
                                               .expiration = item.expiration});
    };
    if (stored.regular) strip_one(nil_subkey(), *stored.regular);
    for (auto& [subkey, item] : stored.dictionary) strip_one(subkey, item);
}

bool DhtNode::Core::put_record(Storage& into,
                               const DhtId& key,
                               ByteView subkey,
                               ByteView value,
                               WallSeconds expiration,
                               const PeerId& sender) {
    const WallSeconds now = clock.now();
    // Cheap answers first: a signature costs more than all the rest.
    const Stored* there = into.find(key, now);
    if (holds_equal(there, subkey, value, expiration)) return true;
    if (expiration <= now || holds_newer(there, subkey, expiration)) return false;
    const PeerId owner = sender == host.id() ? PeerId() : sender;
    if (!is_valid(key, subkey, value, expiration)) return false;
    const auto taken = [&](const Ok& stored) {
        if (stored && &into == &storage) watches->changed(key, subkey);
        return stored.has_value();
    };
    if (base::equal(subkey, nil_subkey()))
        return taken(into.store(key, to_bytes(value), expiration, owner, now));
    // Subkeys go out again inside dictionaries, so they must be MessagePack, written our way.
    const auto decoded = wire::decode_msgpack(subkey);
    if (!decoded || !base::equal(wire::encode_msgpack(*decoded), subkey)) return false;
    const auto checked = check_record(verifier, key, subkey, value, expiration);
    if (!checked) {
        ++forged;
        log(LogLevel::debug, "dht", "refused: {}", checked.error().message());
        return false;
    }
    const PeerId& charged = checked->signer && !owner.is_empty() ? *checked->signer : owner;
    return taken(
        into.store_subkey(key, to_bytes(subkey), to_bytes(value), expiration, charged, now));
}

void DhtNode::Core::put_result(Storage& into, const DhtId& key, const wire::FindResult& result) {
    if (result.type == wire::FindType::regular) {
        (void)put_record(into, key, nil_subkey(), result.value, result.expiration_time, host.id());
    } else if (result.type == wire::FindType::dictionary) {
        const auto dictionary = wire::decode_dht_dictionary(result.value);
        if (!dictionary) return;
        for (const auto& entry : dictionary->entries)
            (void)put_record(into,
                             key,
                             wire::encode_msgpack(entry.subkey),
                             entry.value,
                             entry.expiration_time,
                             host.id());
    }
}

std::optional<Stored> DhtNode::Core::own_copy(const DhtId& key) {
    const WallSeconds now = clock.now();
    const Stored* stored = storage.find(key, now);
    const Stored* cached = cache.find(key, now);
    if (!stored || (cached && cached->expiration() > stored->expiration())) stored = cached;
    if (!stored) return std::nullopt;
    return *stored;
}

Task<Result<Bytes>> DhtNode::Core::on_ping(PeerId from, Bytes request) {
    DEDLOC_CO_TRY(const wire::PingRequest asked, wire::decode<wire::PingRequest>(request));
    wire::PingResponse response;
    response.peer = own_info();
    if (asked.peer && asked.peer->node_id.size() == dht_id_bytes && asked.validate) {
        note_addresses(from, asked.peer->addresses);
        const auto pong = co_await call_ping(from, /*validate=*/false, TimePoint::never());
        response.available = pong && pong->peer && pong->peer->node_id == asked.peer->node_id;
    }
    note_info(from, asked.peer, response.available || !asked.validate);
    // Our own clock's: of these the others take the middle.
    response.dht_time = host.clock().wall_now();
    co_return wire::encode(response);
}

Result<Bytes> DhtNode::Core::on_store(const PeerId& from, ByteView request) {
    DEDLOC_TRY(const wire::StoreRequest asked, wire::decode<wire::StoreRequest>(request));
    const std::size_t count = asked.keys.size();
    if (asked.subkeys.size() != count || asked.values.size() != count ||
        asked.expiration_times.size() != count || asked.in_cache.size() != count)
        return make_error(ErrorKind::bad_input, "the lists of a store request differ in length");
    note_info(from, asked.peer, /*add=*/true);
    wire::StoreResponse response;
    response.peer = own_info();
    std::size_t records = 0;
    for (std::size_t i = 0; i < count; ++i) {
        const auto key = DhtId::from(asked.keys[i]);
        Storage& into = asked.in_cache[i] ? cache : storage;
        const double expiration = asked.expiration_times[i];
        bool taken = key.has_value();
        if (taken && asked.subkeys[i].empty()) {
            // A whole dictionary: taken if every entry was.
            const auto dictionary = wire::decode_dht_dictionary(asked.values[i]);
            taken = dictionary.has_value();
            for (std::size_t j = 0; taken && j < dictionary->entries.size(); ++j) {
                const auto& entry = dictionary->entries[j];
                const Bytes subkey = wire::encode_msgpack(entry.subkey);
                taken = ++records <= items_taken_max &&
                        put_record(into, *key, subkey, entry.value, entry.expiration_time, from);
            }
        } else if (taken) {
            taken = ++records <= items_taken_max &&
                    put_record(into, *key, asked.subkeys[i], asked.values[i], expiration, from);
        }
        response.store_ok.push_back(taken);
    }
    return wire::encode(response);
}

Result<Bytes> DhtNode::Core::on_find(const PeerId& from, ByteView request) {
    DEDLOC_TRY(const wire::FindRequest asked, wire::decode<wire::FindRequest>(request));
    note_info(from, asked.peer, /*add=*/true);
    const auto asking = asked.peer ? DhtId::from(asked.peer->node_id)
                                   : Result<DhtId>(Error(ErrorKind::not_found, "nobody"));
    const std::optional<DhtId> exclude = asking ? std::optional<DhtId>(*asking) : std::nullopt;
    wire::FindResponse response;
    response.peer = own_info();
    std::size_t room = answer_bytes_max;
    std::set<DhtId> answered;
    for (const Bytes& bytes : asked.keys) {
        DEDLOC_TRY(const DhtId key, DhtId::from(bytes));
        wire::FindResult& result = response.results.emplace_back();
        // A key that is repeated would make a small question's answer as large as answers may be.
        if (!answered.insert(key).second) continue;
        for (const Contact& contact : table.nearest(key, options.routing.bucket_size, exclude)) {
            wire::PeerAddresses addresses{.addresses = host.addresses_of(contact.peer)};
            if (addresses.addresses.size() > wire::dht_addresses_max)
                addresses.addresses.resize(wire::dht_addresses_max);
            std::size_t size = 96;
            for (const std::string& address : addresses.addresses) size += address.size() + 4;
            if (size > room) break;
            room -= size;
            result.nearest_node_ids.push_back(to_bytes(contact.id.view()));
            result.nearest_peer_ids.push_back(to_bytes(contact.peer.bytes()));
            result.nearest_addresses.push_back(std::move(addresses));
        }
        const std::optional<Stored> stored = own_copy(key);
        if (!stored) continue;
        Bytes value = stored->regular ? stored->regular->value
                                      : wire::encode_dht_dictionary(to_wire(*stored, room));
        if (value.size() + record_overhead_bytes > room) continue;
        room -= value.size() + record_overhead_bytes;
        result.type = stored->regular ? wire::FindType::regular : wire::FindType::dictionary;
        result.value = std::move(value);
        result.expiration_time = stored->expiration();
    }
    return wire::encode(response);
}

}  // namespace dedloc::dht
