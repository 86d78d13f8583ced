#include "dedloc/dht/watches.h"

#include <algorithm>

#include "dedloc/base/log.h"
#include "dedloc/dht/lookup.h"
#include "dedloc/runtime/together.h"
#include "dedloc/wire/msgpack.h"

namespace dedloc::dht {

// -------------------------------------------------------------------------------------- the holder

class Watches::Place {
  public:
    Place(Watches& watches, DhtId key, PeerId peer)
        : watches_(watches),
          key_(key),
          peer_(std::move(peer)),
          watcher_(watches.add(key_, peer_)) {}
    ~Place() {
        if (watcher_) watches_.remove(key_, peer_, watcher_);
    }
    Place(const Place&) = delete;
    Place& operator=(const Place&) = delete;

    Watcher* watcher() const { return watcher_.get(); }  // null: there is no room

  private:
    Watches& watches_;
    DhtId key_;
    PeerId peer_;
    std::shared_ptr<Watcher> watcher_;
};

std::shared_ptr<Watches::Watcher> Watches::add(const DhtId& key, const PeerId& peer) {
    const auto of_key = by_key_.find(key);
    const auto of_peer = by_peer_.find(peer);
    if (count_ >= watchers_max ||
        (of_key != by_key_.end() && of_key->second.size() >= watchers_per_key_max) ||
        (of_peer != by_peer_.end() && of_peer->second >= watchers_per_peer_max))
        return nullptr;
    auto watcher = std::make_shared<Watcher>(core_.host.executor());
    by_key_[key].push_back(watcher);
    ++by_peer_[peer];
    ++count_;
    return watcher;
}

void Watches::remove(const DhtId& key,
                     const PeerId& peer,
                     const std::shared_ptr<Watcher>& watcher) {
    auto& of_key = by_key_[key];
    std::erase(of_key, watcher);
    if (of_key.empty()) by_key_.erase(key);
    if (--by_peer_[peer] == 0) by_peer_.erase(peer);
    --count_;
}

void Watches::changed(const DhtId& key, ByteView subkey) {
    const auto found = by_key_.find(key);
    if (found == by_key_.end()) return;
    for (const auto& watcher : found->second) {
        watcher->subkeys.insert(to_bytes(subkey));
        watcher->woken.set();
    }
}

void Watches::end_all() {
    for (const auto& [key, watchers] : by_key_)
        for (const auto& watcher : watchers) watcher->woken.set();
}

std::set<Bytes> Watches::subkeys_of(const DhtId& key) {
    std::set<Bytes> subkeys;
    const Stored* stored = core_.storage.find(key, core_.clock.now());
    if (!stored) return subkeys;
    if (stored->regular) subkeys.insert(nil_subkey());
    for (const auto& [subkey, item] : stored->dictionary) subkeys.insert(subkey);
    return subkeys;
}

wire::FindResult Watches::next_news(const DhtId& key, std::set<Bytes>& subkeys) {
    wire::FindResult news;
    const Stored* stored = core_.storage.find(key, core_.clock.now());
    if (!stored) subkeys.clear();
    if (stored && stored->regular) {
        subkeys.clear();
        news.type = wire::FindType::regular;
        news.value = stored->regular->value;
        news.expiration_time = stored->regular->expiration;
    }
    wire::DhtDictionary dictionary;
    std::size_t bytes = 0;
    while (!subkeys.empty()) {
        const auto first = subkeys.begin();
        const auto item = stored->dictionary.find(*first);
        if (item != stored->dictionary.end()) {
            bytes += item->first.size() + item->second.value.size() + record_overhead_bytes;
            if (!dictionary.entries.empty() && bytes > watch_message_bytes) break;
            dictionary.latest_expiration_time =
                std::max(dictionary.latest_expiration_time, item->second.expiration);
            if (auto decoded = wire::decode_msgpack(*first))
                dictionary.entries.push_back({.subkey = *std::move(decoded),
                                              .value = item->second.value,
                                              .expiration_time = item->second.expiration});
        }
        subkeys.erase(first);
    }
    if (dictionary.entries.empty()) return news;
    news.type = wire::FindType::dictionary;
    news.expiration_time = dictionary.latest_expiration_time;
    news.value = wire::encode_dht_dictionary(dictionary);
    return news;
}

Task<void> Watches::serve(std::unique_ptr<p2p::MessageStream> stream) {
    auto asked = co_await stream->read();
    if (!asked || !*asked) co_return;
    const auto key = DhtId::from(**asked);
    if (!key) {
        (void)co_await stream->fail(key.error());
        co_return;
    }
    const Place place(*this, *key, stream->remote());
    if (!place.watcher()) {
        (void)co_await stream->fail(
            Error(ErrorKind::overloaded, "too many watch this key, or this node"));
        co_return;
    }
    Watcher& watcher = *place.watcher();
    watcher.subkeys = subkeys_of(*key);
    // Also when there is nothing yet: then the watcher knows that it will be told.
    do {
        auto written = co_await stream->write(wire::encode(next_news(*key, watcher.subkeys)));
        if (!written) co_return;
        if (!watcher.subkeys.empty()) continue;
        watcher.woken.reset();
        co_await watcher.woken.wait();
    } while (!core_.stopped);
}

// ------------------------------------------------------------------------------------- the watcher

void Watches::take(State& state, const wire::FindResult& news) {
    const WallSeconds now = core_.clock.now();
    const auto copy = [&] {
        const Stored* stored = state.known.find(state.key, now);
        return stored ? std::optional<Stored>(*stored) : std::nullopt;
    };
    const std::optional<Stored> before = copy();
    core_.put_result(state.known, state.key, news);
    std::optional<Stored> after = copy();
    if (!after || after == before || state.ended) return;
    core_.strip(state.key, *after);
    state.listener(*after);
}

// Asks for what the nearest nodes hold, and who they are.
Task<void> Watches::ask_around(std::shared_ptr<State> state, std::vector<Contact>& nearest) {
    Lookup lookup(core_,
                  state->key,
                  core_.options.num_replicas,
                  [&](const Contact&, const wire::FindResult& result) {
                      take(*state, result);
                      return false;
                  });
    co_await lookup.run(core_.host.clock().now() + 4 * core_.options.call_timeout);
    nearest = lookup.nearest();
}

Task<void> Watches::hear_from(std::shared_ptr<State> state, PeerId holder) {
    struct Ending {
        State& state;
        bool has_spoken = false;  // one that never did would be asked all the time
        ~Ending() {
            if (has_spoken) state.lost.set();
        }
    } ending{*state};
    const TimePoint deadline = core_.host.clock().now() + core_.options.call_timeout;
    auto opened = co_await core_.host.open_stream(holder, watch_method, deadline);
    if (!opened) co_return;
    const std::unique_ptr<p2p::MessageStream> stream = *std::move(opened);
    auto asked = co_await stream->write(to_bytes(state->key.view()));
    if (!asked) co_return;
    for (;;) {
        auto message = co_await stream->read();
        if (!message || !*message) co_return;
        const auto news = wire::decode<wire::FindResult>(**message);
        if (!news) co_return;
        ending.has_spoken = true;
        take(*state, *news);
    }
}

Task<void> Watches::hear_from_ourselves(std::shared_ptr<State> state) {
    const Place place(*this, state->key, core_.host.id());
    if (!place.watcher()) co_return;
    Watcher& watcher = *place.watcher();
    watcher.subkeys = subkeys_of(state->key);
    while (!core_.stopped) {
        while (!watcher.subkeys.empty()) take(*state, next_news(state->key, watcher.subkeys));
        watcher.woken.reset();
        co_await watcher.woken.wait();
    }
}

namespace {

Task<void> pause(runtime::Clock& clock, Duration duration) { co_await clock.sleep_for(duration); }

Task<void> wait_for_loss(runtime::Clock& clock, runtime::Event& lost) {
    co_await clock.sleep_for(rewatch_pause_min);
    co_await lost.wait();
}

}  // namespace

Task<void> Watches::follow(std::shared_ptr<State> state) {
    runtime::Clock& clock = core_.host.clock();
    while (!state->ended) {
        std::vector<Contact> nearest;
        co_await ask_around(state, nearest);
        if (nearest.size() > watched_holders) nearest.resize(watched_holders);
        state->lost.reset();
        std::vector<Task<void>> hearing;
        if (!core_.options.client_mode) hearing.push_back(hear_from_ourselves(state));
        for (const Contact& holder : nearest) hearing.push_back(hear_from(state, holder.peer));
        // Holders that have all ended are no reason to ask again at once.
        hearing.push_back(pause(clock, rewatch_period));
        Task<void> all = runtime::all_of(std::move(hearing));
        Task<void> end =
            runtime::first_of(pause(clock, rewatch_period), wait_for_loss(clock, state->lost));
        co_await runtime::first_of(std::move(all), std::move(end));
    }
}

}  // namespace dedloc::dht
