#include "dedloc/experts/expert_host.h"

#include <algorithm>
#include <set>

#include "dedloc/base/log.h"
#include "dedloc/experts/grid_view.h"

namespace dedloc::experts {
namespace {

// The host holds copies for keepers, and those offered to servers that begin.
constexpr state::StoreLimits store_limits{.steps_max = 2, .pinned_max = 2};
// For another copy to be done with.
constexpr Duration turn_max = std::chrono::seconds(60);

}  // namespace

ExpertHost::ExpertHost(runtime::Node node,
                       p2p::Host& host,
                       dht::DhtNode& table,
                       const security::Signer& signer,
                       runtime::Workers& device,
                       ExpertFactory factory,
                       HostOptions options,
                       HostListener listener)
    : node_(std::move(node)),
      host_(host),
      table_(table),
      signer_(signer),
      factory_(std::move(factory)),
      options_(std::move(options)),
      listener_(std::move(listener)),
      server_(host, device, options_.server),
      directory_(table, host.executor(), node_.clock),
      store_(node_.clock, store_limits),
      state_server_(host, store_, [](const PeerId&) { return true; }),
      kept_(node_.disk, options_.kept_max),
      in_(host.executor()),
      out_(host.executor()),
      offers_(host.executor()),
      scope_(host.executor()) {}

ExpertHost::~ExpertHost() { DEDLOC_CHECK(!running_, "stop() an ExpertHost first"); }

void ExpertHost::start() {
    running_ = true;
    started_ = node_.clock.now();
    server_.start();
    host_.handle_call(alive_method, [this](PeerId from, Bytes request) {
        return on_alive(std::move(from), std::move(request));
    });
    host_.handle_call(keep_method, [this](PeerId from, Bytes request) {
        return on_keep(std::move(from), std::move(request));
    });
    host_.handle_call(offer_method, [this](PeerId from, Bytes request) {
        return on_offer(std::move(from), std::move(request));
    });
    scope_.spawn("open for work", open_for_work());
}

// A server that is declared is asked for copies at once: they are read before.
Task<void> ExpertHost::open_for_work() {
    std::function<bool(const std::string&)> is_wanted = [this](const std::string& name) {
        const auto uid = ExpertUid::parse(name);
        return uid && options_.grid.contains(*uid) && !hosted_.contains(name);
    };
    co_await kept_.load(node_.workers, std::move(is_wanted));
    scope_.spawn("declare experts", declare_all_the_time());
    scope_.spawn("look for experts to serve", find_work());
    scope_.spawn("send snapshots", send_snapshots());
    scope_.spawn("watch servers", watch());
}

Task<void> ExpertHost::stop() {
    if (!running_) co_return;
    for (const char* method : {alive_method, keep_method, offer_method})
        host_.remove_handler(method);
    co_await scope_.stop();
    co_await server_.stop();
    running_ = false;
}

bool ExpertHost::has_memory() {
    const Ok room = options_.has_room ? options_.has_room() : Ok();
    if (!room) {
        ++counts_.no_memory;
        log(LogLevel::debug, "experts", "nothing is taken: {}", room.error().message());
    }
    return room.has_value();
}

std::size_t ExpertHost::experts_max() const {
    const bool room = !options_.has_room || options_.has_room();
    return room ? options_.experts_max : hosted_.size();
}

bool ExpertHost::may_serve_another() {
    return !leaving_ && hosted_.size() < options_.experts_max && has_memory();
}

void ExpertHost::tell(std::string_view what, const std::string& uid) const {
    log(LogLevel::info, "experts", "{} {}", what, uid);
    if (listener_) listener_(what, uid);
}

// ------------------------------------------------------------------------------------ declarations

Task<void> ExpertHost::declare_all_the_time() {
    for (;;) {
        co_await declare();
        co_await node_.clock.sleep_for(options_.declare_period);
    }
}

Task<void> ExpertHost::declare() {
    const TimePoint deadline = within(options_.declared_for);
    const double period = to_seconds(options_.declare_period);
    ServerRecordPayload record;
    record.experts_max = experts_max();
    record.hosted = hosted_.size();
    record.queue_ms =
        static_cast<std::uint64_t>(to_seconds(server_.batcher().expected_wait()) * 1000);
    const std::uint64_t calls = server_.batcher().counts().calls;
    record.calls_per_s = static_cast<double>(calls - calls_before_) / period;
    calls_before_ = calls;
    const BatcherCounts& counts = server_.batcher().counts();
    record.failed = counts.overloaded + counts.failed + counts.abandoned + server_.counts().refused;
    const WallSeconds expiration = declared_until();
    if (!leaving_) {
        const auto said = co_await table_.store_signed(
            signer_, servers_key(options_.grid), wire::encode(record), expiration, deadline);
        if (!said) log(LogLevel::debug, "experts", "not announced: {}", said.error().message());
    }
    std::vector<ExpertUid> uids;
    for (const auto& [name, hosted] : hosted_) uids.push_back(hosted.uid);
    if (uids.empty()) co_return;
    // Somebody else may have taken over while we were stopped or cut off.
    std::vector<ExpertUid> asked = uids;
    const auto named = co_await directory_.find(std::move(asked), dht::Freshness::latest, deadline);
    std::vector<ExpertUid> ours;
    for (std::size_t i = 0; i < uids.size(); ++i) {
        const auto hosted = hosted_.find(uids[i].text());
        if (hosted == hosted_.end()) continue;
        if (!named[i]) continue;  // the table does not answer: we may have been cut off
        if (*named[i] && **named[i] != host_.id()) {
            // The first that is declared has an expert that two began.
            const bool was_ours = hosted->second.declared;
            hosted_.erase(hosted);
            server_.batcher().remove(uids[i].text());
            if (!was_ours) continue;
            ++counts_.given_up;
            tell("given up, another serves it:", uids[i].text());
        } else {
            hosted->second.declared = true;
            ours.push_back(uids[i]);
        }
    }
    if (ours.empty() || leaving_) co_return;
    (void)co_await directory_.declare(std::move(ours), host_.id(), expiration, deadline);
}

Task<std::vector<ServerRoom>> ExpertHost::servers() {
    std::vector<ServerRoom> rooms;
    const auto stored = co_await table_.get(
        servers_key(options_.grid), dht::Freshness::latest, within(std::chrono::seconds(5)));
    if (stored && *stored)
        for (const ServerSeen& seen : servers_from(**stored))
            rooms.push_back({.server = seen.server,
                             .experts_max = seen.record.experts_max,
                             .hosted = seen.record.hosted});
    std::erase_if(rooms, [this](const ServerRoom& room) { return room.server == host_.id(); });
    if (!leaving_)
        rooms.push_back(
            {.server = host_.id(), .experts_max = experts_max(), .hosted = hosted_.size()});
    known_servers_ = rooms;
    co_return rooms;
}

Task<void> ExpertHost::find_work() {
    co_await node_.clock.sleep_for(options_.settle);
    for (;;) {
        if (!leaving_) co_await take_over_missing();
        if (!leaving_) co_await adopt_late_offers();
        co_await node_.clock.sleep_for(options_.takeover_period);
    }
}

Task<void> ExpertHost::take_over_missing() {
    const std::vector<ExpertUid> all = options_.grid.all();
    std::vector<ExpertUid> asked = all;
    const auto named = co_await directory_.find(
        std::move(asked), dht::Freshness::latest, within(std::chrono::seconds(10)));
    std::vector<ExpertUid> missing;
    GridSurvey survey{.looked = true};
    for (std::size_t i = 0; i < all.size(); ++i) {
        if (hosted_.contains(all[i].text())) continue;
        ++(!named[i] ? survey.unknown : *named[i] ? survey.elsewhere : survey.missing);
        if (named[i] && !*named[i]) missing.push_back(all[i]);
    }
    grid_ = survey;
    if (missing.empty()) co_return;
    std::vector<ServerRoom> rooms = co_await servers();
    const auto falls_to = assign(missing, std::move(rooms), all.size());
    for (const auto& [uid, server] : falls_to) {
        if (leaving_) co_return;
        if (server == host_.id() && !hosted_.contains(uid.text())) co_await begin(uid);
    }
    co_await declare();
}

Task<void> ExpertHost::begin(ExpertUid uid) {
    const auto turn = co_await in_.acquire(node_.clock, within(turn_max));
    if (!turn || hosted_.contains(uid.text()) || !may_serve_another()) co_return;
    const Published offered = co_await best_offer(uid.text());
    if (hosted_.contains(uid.text()) || leaving_) co_return;
    const auto served = serve(uid, offered ? offered->snapshot.get() : nullptr);
    if (!served) {
        log(LogLevel::warning,
            "experts",
            "expert {} cannot be served: {}",
            uid.text(),
            served.error().message());
        co_return;
    }
    kept_.release(uid.text());
    std::set<PeerId>& asked = hosted_.at(uid.text()).asked.emplace();
    for (const ServerRoom& room : known_servers_) asked.insert(room.server);
    ++(offered ? counts_.taken_over : counts_.begun);
    tell(offered ? "taken over" : "begun", uid.text());
}

// After all have stopped they come back one by one, and the first finds nobody who has a copy, or
// nobody who has a newer one than its own.
Task<void> ExpertHost::adopt_late_offers() {
    std::vector<std::string> begun;
    for (const auto& [uid, hosted] : hosted_)
        if (hosted.asked) begun.push_back(uid);
    if (begun.empty()) co_return;
    const std::vector<ServerRoom> rooms = known_servers_;  // send_snapshots() keeps them fresh
    for (const std::string& uid : begun)
        for (const ServerRoom& room : rooms) {
            const auto hosted = hosted_.find(uid);
            if (hosted == hosted_.end() || !hosted->second.asked ||
                !hosted->second.asked->insert(room.server).second)
                continue;
            const auto turn = co_await in_.acquire(node_.clock, within(turn_max));
            const auto backend = server_.batcher().find(uid);
            if (!turn || !backend || !has_memory()) continue;
            const Published offered = co_await offer_of(room.server, uid, backend->updates());
            const auto still = hosted_.find(uid);
            if (!offered || still == hosted_.end() || leaving_) continue;
            const ExpertUid name = still->second.uid;
            const bool was_declared = still->second.declared;
            hosted_.erase(still);
            server_.batcher().remove(uid);
            if (!serve(name, offered->snapshot.get())) continue;
            hosted_.at(uid).declared = was_declared;
            kept_.release(uid);
            ++counts_.taken_over;
            tell("taken over", uid);
        }
}

Result<void> ExpertHost::serve(const ExpertUid& uid, const state::Snapshot* snapshot) {
    DEDLOC_TRY(std::unique_ptr<ExpertBackend> backend, factory_(uid));
    if (snapshot) DEDLOC_TRY_VOID(backend->load(snapshot->sections(), snapshot->step()));
    Hosted hosted;
    hosted.uid = uid;
    hosted.saved_updates = backend->updates();
    server_.batcher().add(uid.text(), std::move(backend));
    hosted_.emplace(uid.text(), std::move(hosted));
    return {};
}

}  // namespace dedloc::experts
