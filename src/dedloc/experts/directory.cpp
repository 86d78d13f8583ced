#include "dedloc/experts/directory.h"

#include <algorithm>

#include "dedloc/runtime/together.h"
#include "dedloc/wire/msgpack.h"

namespace dedloc::experts {

using wire::MsgpackValue;

dht::DhtId key_of(std::string_view name_or_prefix) { return dht::DhtId::of_text(name_or_prefix); }

std::vector<dht::DhtItem> declaration(const ExpertUid& uid,
                                      const PeerId& server,
                                      WallSeconds expiration) {
    const std::string text = uid.text();
    std::vector<dht::DhtItem> items;
    items.push_back({.key = key_of(text),
                     .subkey = std::nullopt,
                     .value = wire::encode_msgpack(server.text()),
                     .expiration = expiration});
    MsgpackValue::Tuple entry;
    entry.items.emplace_back(text);
    entry.items.emplace_back(server.text());
    const Bytes value = wire::encode_msgpack(std::move(entry));
    const std::size_t dimensions = uid.coordinates.size();
    if (dimensions == 1) {
        items.push_back({.key = key_of(uid.prefix(1)),
                         .subkey = wire::encode_msgpack(flat_expert),
                         .value = value,
                         .expiration = expiration});
        return items;
    }
    for (std::size_t count = dimensions - 1; count >= 1; --count)
        items.push_back({.key = key_of(uid.prefix(count)),
                         .subkey = wire::encode_msgpack(uid.coordinates[count]),
                         .value = value,
                         .expiration = expiration});
    return items;
}

namespace {

std::optional<Location> location_from(std::string_view prefix,
                                      std::int64_t coordinate,
                                      ByteView value) {
    const auto decoded = wire::decode_msgpack(value);
    const auto* entry = decoded ? decoded->get<MsgpackValue::Tuple>() : nullptr;
    if (entry == nullptr || entry->items.size() != 2) return std::nullopt;
    const auto* name = entry->items[0].get<std::string>();
    const auto* server = entry->items[1].get<std::string>();
    if (name == nullptr || server == nullptr) return std::nullopt;
    auto uid = ExpertUid::parse(*name);
    auto peer = PeerId::from_text(*server);
    if (!uid || !peer) return std::nullopt;
    // An entry must be below this very prefix, or its writer sends us anywhere.
    const std::string under = coordinate == flat_expert
                                  ? std::string(prefix)
                                  : std::string(prefix) + std::to_string(coordinate) + ".";
    if (!(*name + ".").starts_with(under)) return std::nullopt;
    return Location{.uid = *std::move(uid), .server = *std::move(peer)};
}

}  // namespace

Successors successors_from(std::string_view prefix, const dht::Stored& stored) {
    Successors successors;
    for (const auto& [subkey, record] : stored.dictionary) {
        if (successors.size() >= successors_max) break;
        const auto decoded = wire::decode_msgpack(subkey);
        const auto* coordinate = decoded ? decoded->get<std::int64_t>() : nullptr;
        if (coordinate == nullptr || *coordinate < flat_expert) continue;
        auto location = location_from(prefix, *coordinate, record.value);
        if (location) successors.emplace(*coordinate, *std::move(location));
    }
    return successors;
}

Directory::Directory(dht::DhtNode& table,
                     runtime::Executor executor,
                     runtime::Clock& clock,
                     DirectoryOptions options)
    : table_(table), clock_(clock), options_(options), arrived_(executor) {}

Task<std::vector<bool>> Directory::declare(std::vector<ExpertUid> uids,
                                           PeerId server,
                                           WallSeconds expiration,
                                           TimePoint deadline) {
    std::vector<dht::DhtItem> items;
    std::vector<std::size_t> owner;
    for (std::size_t i = 0; i < uids.size(); ++i)
        for (dht::DhtItem& item : declaration(uids[i], server, expiration)) {
            items.push_back(std::move(item));
            owner.push_back(i);
        }
    const auto stored = co_await table_.store_many(std::move(items), deadline);
    std::vector<bool> declared(uids.size(), true);
    for (std::size_t i = 0; i < stored.size(); ++i)
        // Other experts share a prefix's record of the same coordinate; a later one of theirs may
        // be there, and leads to this expert as well.
        if (!stored[i] && stored[i].error().kind() != ErrorKind::conflict)
            declared[owner[i]] = false;
    co_return declared;
}

Task<std::vector<Result<std::optional<PeerId>>>> Directory::find(std::vector<ExpertUid> uids,
                                                                 dht::Freshness freshness,
                                                                 TimePoint deadline) {
    std::vector<dht::DhtId> keys;
    for (const ExpertUid& uid : uids) keys.push_back(key_of(uid.text()));
    lookups_ += keys.size();
    const auto found = co_await table_.get_many(std::move(keys), freshness, deadline);
    std::vector<Result<std::optional<PeerId>>> servers;
    for (const auto& record : found) {
        if (!record) {
            servers.emplace_back(record.error());
            continue;
        }
        std::optional<PeerId> server;
        if (*record && (**record).regular) {
            const auto value = wire::decode_msgpack((**record).regular->value);
            const auto* text = value ? value->get<std::string>() : nullptr;
            auto peer = PeerId::from_text(text ? *text : std::string());
            if (peer) server = *std::move(peer);
        }
        servers.emplace_back(std::move(server));
    }
    co_return servers;
}

Task<void> Directory::ask(std::vector<std::string> prefixes,
                          dht::Freshness freshness,
                          TimePoint deadline) {
    // A caller that waits for these must not wait for ever when this is cancelled.
    struct Asked {
        Directory& directory;
        const std::vector<std::string>& prefixes;
        ~Asked() {
            for (const std::string& prefix : prefixes) {
                const auto known = directory.known_.find(prefix);
                if (known != directory.known_.end()) known->second.asked = false;
            }
            directory.arrived_.pulse();
        }
    } asked{*this, prefixes};
    std::vector<dht::DhtId> keys;
    for (const std::string& prefix : prefixes) keys.push_back(key_of(prefix));
    lookups_ += prefixes.size();
    const auto found = co_await table_.get_many(std::move(keys), freshness, deadline);
    for (std::size_t i = 0; i < found.size(); ++i) {
        Successors successors;
        if (found[i] && *found[i]) successors = successors_from(prefixes[i], **found[i]);
        remember(prefixes[i], std::move(successors), found[i].has_value());
    }
}

Task<std::vector<Successors>> Directory::successors(std::vector<std::string> prefixes,
                                                    TimePoint deadline) {
    std::vector<std::string> to_ask;
    std::vector<std::string> to_ask_again;
    for (const std::string& prefix : prefixes) {
        Known& known = known_[prefix];
        if (known.asked || known.until > clock_.now()) continue;
        known.asked = true;
        (known.doubted ? to_ask_again : to_ask).push_back(prefix);
    }
    std::vector<Task<void>> questions;
    if (!to_ask.empty()) questions.push_back(ask(std::move(to_ask), dht::Freshness::any, deadline));
    if (!to_ask_again.empty())
        questions.push_back(ask(std::move(to_ask_again), dht::Freshness::latest, deadline));
    co_await runtime::all_of(std::move(questions));
    std::vector<Successors> result;
    for (const std::string& prefix : prefixes) {
        while (known_[prefix].asked && clock_.now() < deadline)
            (void)co_await arrived_.wait_until(clock_, deadline);
        result.push_back(known_[prefix].successors);
    }
    co_return result;
}

void Directory::remember(const std::string& prefix, Successors successors, bool answered) {
    if (known_.size() > prefixes_known_max)
        std::erase_if(known_, [&](const auto& entry) {
            return !entry.second.asked && entry.second.until <= clock_.now();
        });
    Known& known = known_[prefix];
    const bool empty = successors.empty();
    // An older answer is better than nothing while the table does not answer.
    if (answered || known.successors.empty()) known.successors = std::move(successors);
    known.doubted = false;
    known.until = clock_.now() + (empty ? options_.unknown_for : options_.known_for);
}

void Directory::doubt(const Location& location) {
    for (std::size_t count = 1; count <= location.uid.coordinates.size(); ++count) {
        const auto known = known_.find(location.uid.prefix(count));
        if (known == known_.end()) continue;
        known->second.doubted = true;
        known->second.until = std::min(known->second.until, clock_.now() + options_.unknown_for);
    }
}

}  // namespace dedloc::experts
