// Reading: look-ups that are shared, what they leave in caches, and what is fetched again in time.

#include <algorithm>
#include <set>

#include "dedloc/dht/batches.h"
#include "dedloc/dht/lookup.h"
#include "dedloc/wire/msgpack.h"

namespace dedloc::dht {

using Core = DhtNode::Core;

namespace {

Task<void> cache_at(Core& core, PeerId peer, std::vector<DhtItem> items) {
    (void)co_await core.stores->store(
        peer, std::move(items), /*in_cache=*/true, TimePoint::never());
}

// The next asker should find it sooner: at the nearest node that did not have it.
void cache_result(Core& core,
                  const DhtId& key,
                  const Stored& stored,
                  const Lookup& lookup,
                  const std::set<PeerId>& sources,
                  std::size_t others) {
    const std::vector<DhtItem> items = items_of(key, stored);
    for (const DhtItem& item : items)
        (void)core.put_record(core.cache,
                              key,
                              item.subkey ? *item.subkey : nil_subkey(),
                              item.value,
                              item.expiration,
                              core.host.id());
    std::size_t told = 0;
    for (const Contact& contact : lookup.nearest()) {
        if (told >= others) return;
        if (sources.contains(contact.peer)) continue;
        ++told;
        core.scope.spawn("cache at the nearest node", cache_at(core, contact.peer, items));
    }
}

Task<Result<std::optional<Stored>>> get_key(Core& core,
                                            DhtId key,
                                            Freshness freshness,
                                            TimePoint deadline) {
    const TableClock& clock = core.clock;
    Storage merged(core.options.storage);
    for (Storage* own : {&core.storage, &core.cache}) {
        const Stored* stored = own->find(key, clock.now());
        if (!stored) continue;
        for (const DhtItem& item : items_of(key, *stored)) {
            // Verified when they came in.
            if (item.subkey)
                (void)merged.store_subkey(
                    key, *item.subkey, item.value, item.expiration, {}, clock.now());
            else
                (void)merged.store(key, item.value, item.expiration, {}, clock.now());
        }
    }
    const Stored* here = merged.find(key, clock.now());
    if (here && freshness == Freshness::any) co_return std::optional<Stored>(*here);

    std::set<PeerId> sources;
    Lookup::Found found = [&](const Contact& from, const wire::FindResult& result) {
        if (result.type == wire::FindType::not_found) return false;
        sources.insert(from.peer);
        core.put_result(merged, key, result);
        return freshness == Freshness::any && merged.find(key, clock.now()) != nullptr;
    };
    Lookup lookup(core, key, core.options.beam_size, std::move(found));
    co_await lookup.run(deadline);
    const Stored* stored = merged.find(key, clock.now());
    if (stored) {
        // A key that is asked for anew each time need not lie at others.
        const std::size_t others = freshness == Freshness::any ? core.options.cache_nearest : 0;
        cache_result(core, key, *stored, lookup, sources, others);
        co_return std::optional<Stored>(*stored);
    }
    if (lookup.last_error() && lookup.nearest().empty())
        co_return lookup.last_error()->with_context("no node of the DHT answered");
    if (core.joined && lookup.nearest().empty())
        co_return make_error(ErrorKind::peer_gone, "no node of the DHT is in reach");
    co_return std::optional<Stored>();
}

}  // namespace

Task<Result<std::optional<Stored>>> Core::get(DhtId key, Freshness freshness, TimePoint deadline) {
    if (freshness == Freshness::any) {
        // Our own copies need no look-up.
        if (const auto own = own_copy(key)) {
            if (!storage.find(key, clock.now())) refresh_later(key, own->expiration());
            co_return own;
        }
    }
    if (stopped) co_return Error(ErrorKind::peer_gone, stopping_text);
    const std::pair<DhtId, Freshness> what(key, freshness);
    for (int tries = 0; tries < 2; ++tries) {
        std::shared_ptr<PendingGet>& pending = pending_gets[what];
        const bool is_first = !pending;
        if (is_first) {
            pending = std::make_shared<PendingGet>(host.executor());
            scope.spawn("look a key up", look_up(key, freshness, deadline, pending));
        }
        const std::shared_ptr<PendingGet> waited_for = pending;
        if (!co_await waited_for->done.wait_until(host.clock(), deadline)) break;
        // Another's look-up may have ended by its own, earlier deadline.
        const bool again = !is_first && !*waited_for->result;
        if (!again) co_return *waited_for->result;
    }
    co_return make_error(ErrorKind::timeout, "the look-up took longer than its deadline");
}

Task<void> Core::look_up(DhtId key,
                         Freshness freshness,
                         TimePoint deadline,
                         std::shared_ptr<PendingGet> pending) {
    // A waiting caller is told, even when the node stops meanwhile.
    struct Ending {
        Core& core;
        std::pair<DhtId, Freshness> what;
        PendingGet& pending;
        ~Ending() {
            core.pending_gets.erase(what);
            if (!pending.result) pending.result.emplace(Error(ErrorKind::peer_gone, stopping_text));
            pending.done.set();
        }
    } ending{*this, {key, freshness}, *pending};
    auto result = co_await get_key(*this, key, freshness, deadline);
    pending->result.emplace(std::move(result));
}

void Core::refresh_later(const DhtId& key, WallSeconds expiration) {
    if (options.cache_refresh_before_s <= 0) return;
    if (to_refresh.size() >= refreshed_max && !to_refresh.contains(key)) return;
    to_refresh[key] = expiration;
    if (refreshing) return;
    refreshing = true;
    scope.spawn("refresh what is cached", refresh_cached());
}

Task<void> Core::refresh_cached() {
    while (!to_refresh.empty()) {
        const auto next = std::min_element(to_refresh.begin(),
                                           to_refresh.end(),
                                           [](auto& a, auto& b) { return a.second < b.second; });
        const WallSeconds wait = next->second - options.cache_refresh_before_s - clock.now();
        if (wait > 0) {
            // A record that was read meanwhile may come before it: look again within a second.
            co_await host.clock().sleep_for(from_seconds(std::min(wait, 1.0)));
            continue;
        }
        const DhtId key = next->first;
        to_refresh.erase(next);
        // Not read again until then: no longer kept fresh.
        (void)co_await get_key(*this, key, Freshness::latest, call_deadline(TimePoint::never()));
    }
    refreshing = false;
}

Task<void> Core::refresh_table() {
    const Bytes seed = to_bytes(id.view());
    Random random(*base::ByteReader(seed).u64_be());
    for (;;) {
        co_await host.clock().sleep_for(options.refresh_period);
        // The node's own neighbourhood, and a part of the space by chance.
        for (const DhtId& target : {id, DhtId::random(random)}) {
            Lookup lookup(*this, target, options.beam_size, {});
            co_await lookup.run(host.clock().now() + options.call_timeout * 4);
        }
    }
}

}  // namespace dedloc::dht
