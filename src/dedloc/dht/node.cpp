#include "dedloc/dht/node.h"

#include <algorithm>
#include <set>
#include <utility>

#include "dedloc/dht/batches.h"
#include "dedloc/dht/core.h"
#include "dedloc/dht/lookup.h"
#include "dedloc/dht/watches.h"
#include "dedloc/runtime/together.h"

namespace dedloc::dht {

namespace {

using Core = DhtNode::Core;

// Handlers own the core, so that one in flight outlives the node.
Task<Result<Bytes>> handle_ping(std::shared_ptr<Core> core, PeerId from, Bytes request) {
    if (core->stopped) co_return make_error(ErrorKind::peer_gone, "this node stops");
    co_return co_await core->on_ping(std::move(from), std::move(request));
}

Task<Result<Bytes>> handle_store(std::shared_ptr<Core> core, PeerId from, Bytes request) {
    if (core->stopped) co_return make_error(ErrorKind::peer_gone, "this node stops");
    co_return core->on_store(from, request);
}

Task<Result<Bytes>> handle_find(std::shared_ptr<Core> core, PeerId from, Bytes request) {
    if (core->stopped) co_return make_error(ErrorKind::peer_gone, "this node stops");
    co_return core->on_find(from, request);
}

Task<void> handle_watch(std::shared_ptr<Core> core, std::unique_ptr<p2p::MessageStream> stream) {
    if (core->stopped) co_return;
    co_await core->watches->serve(std::move(stream));
}

}  // namespace

DhtNode::DhtNode(p2p::Host& host, const security::Verifier& verifier, DhtOptions options)
    : core_(std::make_shared<Core>(host, verifier, std::move(options))) {}

DhtNode::~DhtNode() {
    DEDLOC_CHECK(!core_->started || core_->stopped, "stop() a DhtNode before it is destroyed");
}

const DhtId& DhtNode::id() const { return core_->id; }
const RoutingTable& DhtNode::table() const { return core_->table; }
std::size_t DhtNode::records() const { return core_->storage.records(); }
std::uint64_t DhtNode::forged() const { return core_->forged; }
WallSeconds DhtNode::wall_now() const { return core_->clock.now(); }
double DhtNode::clock_difference_s() const { return core_->clock.difference(); }

void DhtNode::start() {
    DEDLOC_CHECK(!core_->started);
    core_->started = true;
    if (core_->options.refresh_period > Duration(0))
        core_->scope.spawn("refresh the table", core_->refresh_table());
    if (core_->options.client_mode) return;
    p2p::Host& host = core_->host;
    host.handle_call(ping_method, [core = core_](PeerId from, Bytes request) {
        return handle_ping(core, std::move(from), std::move(request));
    });
    host.handle_call(store_method, [core = core_](PeerId from, Bytes request) {
        return handle_store(core, std::move(from), std::move(request));
    });
    host.handle_call(find_method, [core = core_](PeerId from, Bytes request) {
        return handle_find(core, std::move(from), std::move(request));
    });
    host.handle_stream(watch_method, [core = core_](std::unique_ptr<p2p::MessageStream> stream) {
        return handle_watch(core, std::move(stream));
    });
}

Task<void> DhtNode::stop() {
    auto core = core_;
    if (core->started && !core->stopped && !core->options.client_mode)
        for (const char* method : {ping_method, store_method, find_method, watch_method})
            core->host.remove_handler(method);
    core->stopped = true;
    core->watches->end_all();
    co_await core->scope.stop();
}

// ---- bootstrap

namespace {

constexpr std::size_t clocks_asked_max = 4;

struct Pinged {
    std::size_t answered = 0;
    std::optional<Error> last_error;
};

Task<void> ping_one(Core& core, PeerId peer, TimePoint deadline, Pinged& pinged) {
    auto pong = co_await core.call_ping(peer, !core.options.client_mode, deadline);
    if (pong)
        ++pinged.answered;
    else
        pinged.last_error = std::move(pong).error();
}

}  // namespace

Task<Result<BootstrapReport>> DhtNode::bootstrap(std::vector<PeerId> peers, TimePoint deadline) {
    Core& core = *core_;
    Pinged pinged;
    std::vector<Task<void>> pings;
    for (const PeerId& peer : peers)
        if (peer != core.host.id()) core.remember({.id = DhtId::of_peer(peer), .peer = peer});
    for (const PeerId& peer : peers)
        if (peer != core.host.id()) pings.push_back(ping_one(core, peer, deadline, pinged));
    co_await runtime::all_of(std::move(pings));
    if (pinged.answered == 0)
        co_return pinged.last_error
            ? pinged.last_error->with_context("none of the first peers answered")
            : make_error(ErrorKind::bad_input, "no peer was named to join the DHT through");
    BootstrapReport report;
    report.answered = pinged.answered;
    // Looking for oneself fills the table, and makes oneself known where it matters: at first to
    // the few nearest, who name us to all that look there.
    const std::size_t beam =
        std::exchange(core.bootstrapped, true) ? core.options.beam_size : core.options.join_beam;
    Lookup lookup(core, core.id, beam, {});
    co_await lookup.run(deadline);
    // Where clocks differ, more are asked, so that most decide.
    if (core.clock.disputed()) {
        std::vector<Task<void>> questions;
        for (const Contact& contact : lookup.nearest())
            if (questions.size() < clocks_asked_max && contact.peer != core.host.id())
                questions.push_back(ping_one(core, contact.peer, deadline, pinged));
        co_await runtime::all_of(std::move(questions));
    }
    report.clock_difference_s = core.clock.difference();
    co_return report;
}

namespace {

constexpr Duration join_again_min = 1s;
constexpr Duration join_again_max = 60s;

Task<void> keep_joining(DhtNode& node, Core& core, std::vector<PeerId> peers) {
    Duration wait = join_again_min;
    for (;;) {
        std::vector<PeerId> first = peers;
        const TimePoint deadline = core.host.clock().now() + 4 * core.options.call_timeout;
        const auto joined = co_await node.bootstrap(std::move(first), deadline);
        // Soon again after the first time, too: whoever comes at the same time is there then.
        wait = joined ? std::min(2 * wait, join_again_max) : join_again_min;
        co_await core.host.clock().sleep_for(wait);
    }
}

}  // namespace

void DhtNode::stay_joined(std::vector<PeerId> peers) {
    core_->scope.spawn("stay joined", keep_joining(*this, *core_, std::move(peers)));
}

// ---- store

namespace {

// Items of one key on their way to its replicas.
struct Placing {
    std::vector<DhtItem> items;
    std::vector<StoreReport> reports;  // one an item
    std::vector<Contact> targets;      // nearest first; ourselves too
    std::size_t next = 0;
    std::optional<Error> last_error;
};

void count(Placing& placing, const std::vector<bool>& taken) {
    for (std::size_t i = 0; i < placing.items.size(); ++i)
        ++(taken[i] ? placing.reports[i].accepted : placing.reports[i].refused);
}

void place_here(Core& core, Placing& placing) {
    std::vector<bool> taken;
    for (const DhtItem& item : placing.items)
        taken.push_back(core.put_record(core.storage,
                                        item.key,
                                        item.subkey ? *item.subkey : nil_subkey(),
                                        item.value,
                                        item.expiration,
                                        core.host.id()));
    count(placing, taken);
}

// One of num_replicas: takes the nearest node that nobody has tried, until one answers.
Task<void> place_one(Core& core, Placing& placing, TimePoint deadline) {
    while (placing.next < placing.targets.size()) {
        const Contact target = placing.targets[placing.next++];
        if (target.peer == core.host.id()) {
            place_here(core, placing);
            co_return;
        }
        std::vector<DhtItem> items = placing.items;
        auto taken = co_await core.stores->store(
            target.peer, std::move(items), /*in_cache=*/false, deadline);
        if (taken) {
            count(placing, *taken);
            co_return;
        }
        placing.last_error = std::move(taken).error();
        if (core.host.clock().now() >= deadline) co_return;
    }
}

// At placing.targets; afterwards they are those that were tried.
Task<void> place_all(Core& core, Placing& placing, TimePoint deadline) {
    placing.next = 0;
    placing.reports.assign(placing.items.size(), {});
    std::vector<Task<void>> replicas;
    for (std::size_t i = 0; i < core.options.num_replicas; ++i)
        replicas.push_back(place_one(core, placing, deadline));
    co_await runtime::all_of(std::move(replicas));
    placing.targets.resize(placing.next);
}

Task<void> find_places(Core& core, const DhtId& key, Placing& placing, TimePoint deadline) {
    Lookup lookup(core, key, std::max(core.options.beam_size, core.options.num_replicas), {});
    co_await lookup.run(deadline);
    placing.targets = lookup.nearest();
    placing.last_error = lookup.last_error();
    if (core.options.client_mode) co_return;
    const Contact self{.id = core.id, .peer = core.host.id()};
    const auto place =
        std::find_if(placing.targets.begin(), placing.targets.end(), [&](const Contact& contact) {
            return nearer(key, self.id, contact.id);
        });
    placing.targets.insert(place, self);
}

Result<StoreReport> outcome(const Placing& placing, const StoreReport& report) {
    if (report.accepted > 0) return report;
    if (report.refused > 0)
        return make_error(
            ErrorKind::conflict,
            "{} nodes refused the record: they have a newer one, or it is beyond their limits",
            report.refused);
    if (placing.last_error) return placing.last_error->with_context("no node took the record");
    return make_error(ErrorKind::peer_gone, "no node of the DHT is known to store at");
}

Task<std::vector<Result<StoreReport>>> store_key(Core& core,
                                                 std::vector<DhtItem> items,
                                                 TimePoint deadline) {
    Placing placing;
    placing.items = std::move(items);
    for (DhtItem& item : placing.items) core.sign(item);
    const DhtId key = placing.items.front().key;
    bool placed = false;
    if (const std::vector<Contact>* known = core.places.find(key, core.host.clock().now())) {
        placing.targets = *known;
        co_await place_all(core, placing, deadline);
        placed = !placing.last_error;
    }
    if (!placed) {
        core.places.forget(key);
        co_await find_places(core, key, placing, deadline);
        co_await place_all(core, placing, deadline);
        if (placing.targets.size() >= core.options.num_replicas)
            core.places.remember(
                key, placing.targets, core.host.clock().now() + core.options.places_known_for);
    }
    std::vector<Result<StoreReport>> results;
    for (const StoreReport& report : placing.reports) results.push_back(outcome(placing, report));
    co_return results;
}

struct StoreJob {
    std::vector<std::vector<std::size_t>> groups;  // indexes of items of one key
    std::vector<DhtItem> items;
    std::vector<std::optional<Result<StoreReport>>> results;
    std::size_t next = 0;
};

Task<void> store_groups(Core& core, StoreJob& job, TimePoint deadline) {
    while (job.next < job.groups.size()) {
        const std::vector<std::size_t>& group = job.groups[job.next++];
        std::vector<DhtItem> items;
        for (const std::size_t index : group) items.push_back(std::move(job.items[index]));
        auto results = co_await store_key(core, std::move(items), deadline);
        for (std::size_t i = 0; i < group.size(); ++i)
            job.results[group[i]].emplace(std::move(results[i]));
    }
}

}  // namespace

Task<Result<StoreReport>> DhtNode::store(DhtItem item, TimePoint deadline) {
    std::vector<DhtItem> items;
    items.push_back(std::move(item));
    auto results = co_await store_key(*core_, std::move(items), deadline);
    co_return std::move(results.front());
}

Task<std::vector<Result<StoreReport>>> DhtNode::store_many(std::vector<DhtItem> items,
                                                           TimePoint deadline) {
    StoreJob job;
    std::map<DhtId, std::size_t> group_of;
    for (std::size_t i = 0; i < items.size(); ++i) {
        const auto [at, is_new] = group_of.emplace(items[i].key, job.groups.size());
        if (is_new) job.groups.emplace_back();
        job.groups[at->second].push_back(i);
    }
    job.results.resize(items.size());
    job.items = std::move(items);
    std::vector<Task<void>> workers;
    for (std::size_t i = 0; i < keys_at_once; ++i)
        workers.push_back(store_groups(*core_, job, deadline));
    co_await runtime::all_of(std::move(workers));
    std::vector<Result<StoreReport>> results;
    for (auto& result : job.results) results.push_back(std::move(*result));
    co_return results;
}

Task<Result<StoreReport>> DhtNode::store_signed(const security::Signer& signer,
                                                DhtId key,
                                                Bytes payload,
                                                WallSeconds expiration,
                                                TimePoint deadline) {
    DhtItem item;
    item.key = key;
    item.subkey = subkey_of(signer.id());
    item.value = sign_record(signer, key, payload, expiration);
    item.expiration = expiration;
    co_return co_await store(std::move(item), deadline);
}

// ---- get

namespace {

struct GetJob {
    std::vector<DhtId> keys;
    std::vector<std::optional<Result<std::optional<Stored>>>> results;
    std::size_t next = 0;
};

Task<void> get_keys(Core& core, GetJob& job, Freshness freshness, TimePoint deadline) {
    while (job.next < job.keys.size()) {
        const std::size_t index = job.next++;
        auto result = co_await core.get(job.keys[index], freshness, deadline);
        if (result && *result) core.strip(job.keys[index], **result);
        job.results[index].emplace(std::move(result));
    }
}

}  // namespace

Task<Result<std::optional<Stored>>> DhtNode::get(DhtId key,
                                                 Freshness freshness,
                                                 TimePoint deadline) {
    const auto core = core_;
    auto result = co_await core->get(key, freshness, deadline);
    if (result && *result) core->strip(key, **result);
    co_return result;
}

Task<std::vector<Result<std::optional<Stored>>>> DhtNode::get_many(std::vector<DhtId> keys,
                                                                   Freshness freshness,
                                                                   TimePoint deadline) {
    GetJob job;
    job.results.resize(keys.size());
    job.keys = std::move(keys);
    std::vector<Task<void>> workers;
    for (std::size_t i = 0; i < keys_at_once; ++i)
        workers.push_back(get_keys(*core_, job, freshness, deadline));
    co_await runtime::all_of(std::move(workers));
    std::vector<Result<std::optional<Stored>>> results;
    for (auto& result : job.results) results.push_back(std::move(*result));
    co_return results;
}

namespace {

class WatchingImpl final : public DhtNode::Watching {
  public:
    WatchingImpl(const std::shared_ptr<Core>& core, DhtId key, ChangeListener listener)
        : core_(core),
          state_(std::make_shared<Watches::State>(
              core->host.executor(), key, std::move(listener), core->options.storage)),
          task_(core->scope.spawn("watch a key", core->watches->follow(state_))) {}
    ~WatchingImpl() override {
        state_->ended = true;
        if (const auto core = core_.lock()) core->scope.cancel_task(task_);
    }

  private:
    std::weak_ptr<Core> core_;
    std::shared_ptr<Watches::State> state_;
    runtime::TaskId task_ = 0;
};

}  // namespace

std::unique_ptr<DhtNode::Watching> DhtNode::watch(DhtId key, ChangeListener listener) {
    return std::make_unique<WatchingImpl>(core_, key, std::move(listener));
}

Task<LocateReport> DhtNode::locate(DhtId key, TimePoint deadline) {
    Lookup lookup(*core_, key, core_->options.beam_size, {});
    co_await lookup.run(deadline);
    LocateReport report;
    report.nearest = lookup.nearest();
    report.asked = lookup.asked();
    report.hops = lookup.hops();
    co_return report;
}

Task<std::vector<Contact>> DhtNode::list_nodes(std::size_t nodes_max, TimePoint deadline) {
    // The ids that begin with the first `depth` bits of `lower`.
    struct Part {
        DhtId lower;
        int depth = 0;
    };
    std::map<DhtId, Contact> found;
    const auto take = [&](const Contact& contact) {
        if (found.size() < nodes_max) found.emplace(contact.id, contact);
    };
    for (const Contact& contact : core_->table.all()) take(contact);
    const std::size_t beam = core_->options.beam_size;
    std::deque<Part> parts(1);
    while (!parts.empty() && found.size() < nodes_max && core_->host.clock().now() < deadline) {
        const Part part = parts.front();
        parts.pop_front();
        const LocateReport report = co_await locate(part.lower, deadline);
        for (const Contact& contact : report.nearest) take(contact);
        // Nodes inside come first: when one outside is among the nearest, all inside are, too.
        bool has_all = report.nearest.size() < beam || part.depth >= dht_id_bits - 1;
        for (std::size_t i = 0; i < beam && !has_all; ++i)
            has_all = common_prefix_bits(report.nearest[i].id, part.lower) < part.depth;
        if (has_all) continue;
        Part upper{.lower = part.lower, .depth = part.depth + 1};
        upper.lower.bytes[static_cast<std::size_t>(part.depth) / 8] |=
            static_cast<std::uint8_t>(0x80 >> part.depth % 8);
        parts.push_back({.lower = part.lower, .depth = part.depth + 1});
        parts.push_back(upper);
    }
    std::vector<Contact> nodes;
    for (const auto& [id, contact] : found) nodes.push_back(contact);
    co_return nodes;
}

}  // namespace dedloc::dht
