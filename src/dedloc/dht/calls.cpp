// Calls ask other nodes, and learn about them on the way.

#include <algorithm>
#include <utility>

#include "dedloc/base/log.h"
#include "dedloc/dht/batches.h"
#include "dedloc/dht/watches.h"

namespace dedloc::dht {

DhtNode::Core::Core(p2p::Host& given_host,
                    const security::Verifier& given_verifier,
                    DhtOptions given_options)
    : host(given_host),
      verifier(given_verifier),
      options(std::move(given_options)),
      clock(host.clock()),
      id(DhtId::of_peer(host.id())),
      table(id, options.routing),
      storage(options.storage),
      cache(options.cache),
      scope(host.executor()),
      finds(std::make_unique<FindBatches>(*this)),
      stores(std::make_unique<StoreBatches>(*this)),
      watches(std::make_unique<Watches>(*this)) {}

DhtNode::Core::~Core() = default;

std::optional<wire::NodeInfo> DhtNode::Core::own_info() const {
    wire::NodeInfo info;
    if (options.client_mode) return info;
    info.node_id = to_bytes(id.view());
    info.addresses = host.addresses();
    if (info.addresses.size() > wire::dht_addresses_max)
        info.addresses.resize(wire::dht_addresses_max);
    return info;
}

void DhtNode::Core::note_addresses(const PeerId& peer, const std::vector<std::string>& addresses) {
    if (addresses.empty() || peer == host.id()) return;
    for (const std::string& address : addresses)
        if (address.empty() || address.size() > address_bytes_max) return;
    host.add_addresses(peer, addresses);
}

void DhtNode::Core::note_info(const PeerId& from,
                              const std::optional<wire::NodeInfo>& info,
                              bool add) {
    if (!info) return;
    const auto node_id = DhtId::from(info->node_id);
    if (!node_id) {
        if (const auto old = table.id_of(from)) table.remove(*old);  // client mode now
        return;
    }
    note_addresses(from, info->addresses);
    const Contact contact{.id = *node_id, .peer = from};
    if (add) note_seen(contact);
}

void DhtNode::Core::remember(const Contact& contact) {
    std::erase_if(remembered_, [&](const Contact& old) { return old.peer == contact.peer; });
    remembered_.push_back(contact);
    if (remembered_.size() > remembered_max) remembered_.pop_front();
}

void DhtNode::Core::note_seen(const Contact& contact) {
    joined = true;
    bans.erase(contact.peer);
    RoutingTable::Added added = table.add(contact);
    if (added.ping && pings < pings_max) {
        ++pings;
        scope.spawn("ping an old node", ping_old(*added.ping));
    }
    if (added.is_new) places.newcomer(contact.id);
    if (!added.is_new || options.client_mode || newcomers.size() >= newcomers_max) return;
    newcomers.push_back(contact);
    if (replicating) return;
    replicating = true;
    scope.spawn("give records to new nodes", replicate_to_newcomers());
}

void DhtNode::Core::note_failed(const PeerId& peer, const Error& error) {
    const ErrorKind kind = error.kind();
    if (kind == ErrorKind::cancelled || kind == ErrorKind::overloaded) return;
    if (const auto node_id = table.id_of(peer)) {
        remember({.id = *node_id, .peer = peer});
        table.remove(*node_id);
    }
    if (bans.size() >= banned_max && !bans.contains(peer)) {
        const auto first = std::min_element(bans.begin(), bans.end(), [](auto& a, auto& b) {
            return a.second.until < b.second.until;
        });
        bans.erase(first);
    }
    Ban& ban = bans[peer];
    ban.failures = std::min(ban.failures + 1, ban_doublings_max);
    ban.until = host.clock().now() + ban_min * (1 << (ban.failures - 1));
}

bool DhtNode::Core::banned(const PeerId& peer) const {
    const auto ban = bans.find(peer);
    return ban != bans.end() && host.clock().now() < ban->second.until;
}

Task<Result<wire::PingResponse>> DhtNode::Core::call_ping(PeerId peer,
                                                          bool validate,
                                                          TimePoint deadline) {
    wire::PingRequest request;
    request.peer = own_info();
    request.validate = validate;
    const WallSeconds before = host.clock().wall_now();
    auto answer =
        co_await host.call(peer, ping_method, wire::encode(request), call_deadline(deadline));
    const WallSeconds after = host.clock().wall_now();
    if (!answer) {
        note_failed(peer, answer.error());
        co_return std::move(answer).error();
    }
    auto response = wire::decode<wire::PingResponse>(*answer);
    if (!response) {
        note_failed(peer, response.error());
        co_return std::move(response).error();
    }
    note_info(peer, response->peer, /*add=*/true);
    if (response->dht_time != 0) {
        // Anything between `before` and `after` is no difference at all.
        clock.heard(
            peer,
            std::max(0.0, response->dht_time - after) + std::min(0.0, response->dht_time - before));
        clock.agree();
    }
    co_return response;
}

Task<Result<std::vector<bool>>> DhtNode::Core::send_store(PeerId peer,
                                                          std::vector<DhtItem> items,
                                                          bool in_cache,
                                                          TimePoint deadline) {
    std::vector<bool> taken;
    while (taken.size() < items.size()) {
        wire::StoreRequest request;
        request.peer = own_info();
        std::size_t bytes = 0;
        for (std::size_t i = taken.size(); i < items.size(); ++i) {
            const DhtItem& item = items[i];
            bytes += item.value.size() + record_overhead_bytes;
            if (!request.keys.empty() && bytes > call_values_bytes_max) break;
            if (request.keys.size() >= call_items_max) break;
            request.keys.push_back(to_bytes(item.key.view()));
            request.subkeys.push_back(item.subkey ? *item.subkey : nil_subkey());
            request.values.push_back(item.value);
            request.expiration_times.push_back(item.expiration);
            request.in_cache.push_back(in_cache);
        }
        auto answer =
            co_await host.call(peer, store_method, wire::encode(request), call_deadline(deadline));
        if (!answer) {
            note_failed(peer, answer.error());
            co_return std::move(answer).error();
        }
        auto response = wire::decode<wire::StoreResponse>(*answer);
        if (response && response->store_ok.size() != request.keys.size())
            response = make_error(ErrorKind::peer_broke_protocol,
                                  "node {} answered another number of records",
                                  peer.short_text());
        if (!response) {
            note_failed(peer, response.error());
            co_return std::move(response).error();
        }
        note_info(peer, response->peer, /*add=*/true);
        taken.insert(taken.end(), response->store_ok.begin(), response->store_ok.end());
    }
    co_return taken;
}

Task<void> DhtNode::Core::ping_old(Contact contact) {
    // A failure removes the contact; an answer moves it to the bucket's end.
    (void)co_await call_ping(contact.peer, /*validate=*/false, TimePoint::never());
    // An answer under another id is no answer for this one.
    if (const auto now_id = table.id_of(contact.peer); now_id && *now_id != contact.id)
        table.remove(contact.id);
    --pings;
}

Task<void> DhtNode::Core::replicate_to_newcomers() {
    while (!newcomers.empty()) {
        const Contact contact = newcomers.front();
        newcomers.pop_front();
        if (storage.records() > 0) co_await replicate_to(contact);
    }
    replicating = false;
}

bool DhtNode::Core::concerns(const DhtId& key, const Contact& newcomer) const {
    const std::vector<Contact> neighbours = table.nearest(key, options.num_replicas, newcomer.id);
    if (neighbours.empty()) return true;
    if (!nearer(key, id, neighbours.front().id)) return false;
    // hivemind compares with the farthest even where there are too few for all replicas.
    return neighbours.size() < options.num_replicas ||
           nearer(key, newcomer.id, neighbours.back().id);
}

Task<void> DhtNode::Core::replicate_to(Contact contact) {
    storage.remove_expired(clock.now());
    std::vector<DhtItem> items;
    std::size_t looked_at = 0;
    for (const DhtId& key : storage.keys()) {
        if (++looked_at % keys_a_turn == 0) co_await host.clock().sleep_for(1ms);
        if (!concerns(key, contact)) continue;
        const Stored* stored = storage.find(key, clock.now());
        if (!stored) continue;
        std::vector<DhtItem> of_key = items_of(key, *stored);
        items.insert(items.end(),
                     std::make_move_iterator(of_key.begin()),
                     std::make_move_iterator(of_key.end()));
    }
    if (items.empty()) co_return;
    auto taken =
        co_await send_store(contact.peer, std::move(items), /*in_cache=*/false, TimePoint::never());
    if (!taken) log(LogLevel::debug, "dht", "no records given: {}", taken.error().message());
}

}  // namespace dedloc::dht
