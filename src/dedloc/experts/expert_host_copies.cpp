// ExpertHost's copies: snapshots for keepers, and what keepers do when a server is gone.

#include <algorithm>

#include "dedloc/base/log.h"
#include "dedloc/experts/expert_host.h"
#include "dedloc/runtime/together.h"

namespace dedloc::experts {
namespace {

// To load a snapshot of one expert, over a line that others use, too.
constexpr Duration fetch_max = std::chrono::seconds(60);
constexpr Duration ask_max = std::chrono::seconds(2);
// For another copy to be done with; the server asks another keeper then.
constexpr Duration keep_turn_max = std::chrono::seconds(20);

std::vector<PeerId> ids_of(const std::vector<ServerRoom>& rooms, const PeerId& without) {
    std::vector<PeerId> ids;
    for (const ServerRoom& room : rooms)
        if (room.server != without) ids.push_back(room.server);
    return ids;
}

}  // namespace

// ----------------------------------------------------------------------------- the server's side

Task<void> ExpertHost::send_snapshots() {
    for (;;) {
        co_await node_.clock.sleep_for(options_.snapshot_period);
        (void)co_await servers();
        std::vector<std::string> uids;
        for (const auto& [uid, hosted] : hosted_) uids.push_back(uid);
        for (const std::string& uid : uids) {
            const auto hosted = hosted_.find(uid);
            const auto backend = server_.batcher().find(uid);
            if (hosted == hosted_.end() || !backend || leaving_) continue;
            const bool changed = backend->updates() != hosted->second.saved_updates;
            if (changed || !hosted->second.saved)
                (void)co_await send_snapshot(uid, /*take_over=*/false, within(fetch_max));
        }
    }
}

Task<ExpertHost::Published> ExpertHost::take_snapshot(std::string uid) {
    const auto backend = server_.batcher().find(uid);
    if (!backend) co_return nullptr;
    auto made = std::make_shared<std::shared_ptr<const state::Snapshot>>();
    std::function<void()> job = [backend, uid, made] {
        state::SnapshotInfo info;
        info.step = backend->updates();
        info.extra = to_bytes(uid);
        auto snapshot = state::Snapshot::make(std::move(info), backend->snapshot());
        if (snapshot) *made = *std::move(snapshot);
    };
    co_await server_.batcher().run_on_device(std::move(job));
    if (!*made) co_return nullptr;
    co_return co_await state::publish(node_.workers, *made);
}

// True when a keeper has it. With take_over: when one serves it now.
Task<bool> ExpertHost::send_snapshot(std::string uid, bool take_over, TimePoint deadline) {
    const auto turn = co_await out_.acquire(node_.clock, deadline);
    if (!turn) co_return false;
    const Published published = co_await take_snapshot(uid);
    if (!published) co_return false;
    store_.put(published);
    KeepRequest request;
    request.uid = uid;
    request.root = published->root();
    request.updates = published->snapshot->step();
    request.take_over = take_over;
    std::size_t have = 0;
    const std::size_t wanted = take_over ? 1 : options_.keepers;
    for (const PeerId& keeper : ranked(uid, ids_of(known_servers_, host_.id()))) {
        if (have >= wanted || node_.clock.now() >= deadline) break;
        const auto answer =
            co_await host_.call(keeper, keep_method, wire::encode(request), deadline);
        if (answer) ++have;
    }
    if (have < wanted) co_await save_here(uid, published);
    if (have == 0) co_return false;
    ++counts_.snapshots_sent;
    if (const auto hosted = hosted_.find(uid); hosted != hosted_.end()) {
        hosted->second.saved = true;
        hosted->second.saved_updates = request.updates;
    }
    co_return true;
}

Task<void> ExpertHost::save_here(std::string uid, Published published) {
    const auto hosted = hosted_.find(uid);
    const std::uint64_t updates = published->snapshot->step();
    if (hosted == hosted_.end() || hosted->second.own_updates == updates) co_return;
    const auto written = co_await kept_.write(node_.workers, uid, std::move(published));
    if (const auto still = hosted_.find(uid); written && still != hosted_.end())
        still->second.own_updates = updates;
    if (!written) log(LogLevel::warning, "experts", "not saved: {}", written.error().message());
}

Task<void> ExpertHost::leave(TimePoint deadline) {
    leaving_ = true;
    (void)co_await servers();
    std::vector<std::string> uids;
    for (const auto& [uid, hosted] : hosted_) uids.push_back(uid);
    for (const std::string& uid : uids) {
        // No update may come after the snapshot.
        const auto backend = server_.batcher().find(uid);
        const bool handed = co_await send_snapshot(uid, /*take_over=*/true, deadline);
        if (handed) ++counts_.handed_over;
        hosted_.erase(uid);
        server_.batcher().remove(uid);
        tell(handed ? "handed over" : "left behind on this disk, as nobody took it:", uid);
    }
    co_await stop();
}

// ----------------------------------------------------------------------------- the keeper's side

Task<Result<ExpertHost::Published>> ExpertHost::fetch(PeerId from, Digest root) {
    state::PartialState partial(root);
    state::DownloadOptions options;
    options.deadline = within(fetch_max);
    options.bytes_max = options_.snapshot_bytes_max;
    std::vector<PeerId> providers{std::move(from)};
    co_return co_await state::download(
        host_, node_.workers, partial, std::move(providers), std::move(options));
}

Task<Result<Bytes>> ExpertHost::on_keep(PeerId from, Bytes bytes) {
    DEDLOC_CO_TRY(const KeepRequest request, wire::decode<KeepRequest>(bytes));
    DEDLOC_CO_TRY(const ExpertUid uid, ExpertUid::parse(request.uid));
    if (!options_.grid.contains(uid))
        co_return make_error(ErrorKind::bad_input, "expert {} is of no grid here", uid.text());
    if (leaving_ || hosted_.contains(request.uid) || !kept_.has_room(request.uid) ||
        (request.take_over && hosted_.size() >= options_.experts_max))
        co_return make_error(ErrorKind::overloaded, "no room for another expert");
    // The sender has begun it anew, and will ask for what is here.
    const Kept* const found = kept_.find(request.uid);
    if (found && found->server.is_empty() && found->updates > request.updates)
        co_return make_error(ErrorKind::conflict, "a copy with more updates is here");
    // Only who serves an expert says what its state is.
    std::vector<ExpertUid> asked{uid};
    const auto named = co_await directory_.find(
        std::move(asked), dht::Freshness::latest, within(std::chrono::seconds(5)));
    if (!named.front() || !*named.front() || **named.front() != from)
        co_return make_error(
            ErrorKind::denied, "the table does not say that you serve {}", uid.text());
    const auto turn = co_await in_.acquire(node_.clock, within(keep_turn_max));
    if (!turn || !has_memory())
        co_return make_error(ErrorKind::overloaded, "no memory for another copy now");
    auto state = co_await fetch(from, request.root);
    if (!state) co_return std::move(state).error();
    if ((*state)->snapshot->step() != request.updates ||
        (*state)->snapshot->info().extra != to_bytes(request.uid))
        co_return make_error(ErrorKind::bad_input, "the snapshot is of another expert");
    if (request.take_over) {
        if (hosted_.contains(request.uid) || !may_serve_another())
            co_return make_error(ErrorKind::overloaded, "no room for another expert");
        DEDLOC_CO_TRY_VOID(serve(uid, (*state)->snapshot.get()));
        kept_.release(request.uid);
        ++counts_.taken_over;
        tell("taken over", request.uid);
        const WallSeconds expiration = declared_until();
        std::vector<ExpertUid> uids{uid};
        hosted_.at(request.uid).declared = true;
        (void)co_await directory_.declare(
            std::move(uids), host_.id(), expiration, within(std::chrono::seconds(5)));
        co_return Bytes();
    }
    const auto put =
        co_await kept_.put(node_.workers, request.uid, from, request.updates, *std::move(state));
    if (!put) co_return put.error();
    ++counts_.snapshots_kept;
    co_return Bytes();
}

Task<Result<Bytes>> ExpertHost::on_alive(PeerId, Bytes bytes) {
    DEDLOC_CO_TRY(const AliveRequest request, wire::decode<AliveRequest>(bytes));
    AliveResponse response;
    for (const std::string& uid : request.uids) {
        const auto backend = server_.batcher().find(uid);
        response.updates.push_back(backend ? backend->updates() + 1 : 0);
    }
    co_return wire::encode(response);
}

Task<Result<Bytes>> ExpertHost::on_offer(PeerId, Bytes bytes) {
    DEDLOC_CO_TRY(const OfferRequest request, wire::decode<OfferRequest>(bytes));
    OfferResponse response;
    if (!kept_.find(request.uid)) co_return wire::encode(response);
    const auto turn = co_await offers_.acquire(node_.clock, within(ask_max));
    if (!turn || !has_memory())
        co_return make_error(ErrorKind::overloaded, "no memory to read a copy now");
    if (const Kept* kept = kept_.find(request.uid)) {
        response.updates = kept->updates;
        response.root = kept->root;
        auto state = co_await kept_.read(node_.workers, request.uid);
        if (!state) co_return std::move(state).error();
        store_.put(*std::move(state));  // for the while that it is fetched
    }
    co_return wire::encode(response);
}

// The newest snapshot that any server has of it, our own disk included.
Task<ExpertHost::Published> ExpertHost::best_offer(std::string uid) {
    std::uint64_t best = 0;
    Published state;
    if (const Kept* own = kept_.find(uid)) {
        best = own->updates;
        auto read = co_await kept_.read(node_.workers, uid);
        if (read)
            state = *std::move(read);
        else
            best = 0;
    }
    for (const PeerId& server : ids_of(known_servers_, host_.id())) {
        Published offered = co_await offer_of(server, uid, best);
        if (!offered) continue;
        best = offered->snapshot->step();
        state = std::move(offered);
    }
    co_return state;
}

Task<ExpertHost::Published> ExpertHost::offer_of(PeerId server,
                                                 std::string uid,
                                                 std::uint64_t more_than) {
    OfferRequest request;
    request.uid = uid;
    // Twice: others ask there, too, and it holds few offers at a time.
    for (int tries = 0; tries < 2; ++tries) {
        const auto answer =
            co_await host_.call(server, offer_method, wire::encode(request), within(ask_max));
        if (!answer && answer.error().kind() == ErrorKind::overloaded) continue;
        if (!answer) co_return nullptr;
        const auto offer = wire::decode<OfferResponse>(*answer);
        if (!offer || offer->root.is_zero() || offer->updates <= more_than) co_return nullptr;
        auto fetched = co_await fetch(server, offer->root);
        if (!fetched) continue;
        if ((*fetched)->snapshot->info().extra != to_bytes(uid) ||
            (*fetched)->snapshot->step() <= more_than)
            co_return nullptr;
        co_return *std::move(fetched);
    }
    co_return nullptr;
}

Task<void> ExpertHost::watch() {
    for (;;) {
        co_await node_.clock.sleep_for(options_.watch_period);
        std::map<PeerId, std::vector<std::string>> by_server;
        for (const auto& [uid, kept] : kept_.all())
            if (!kept.server.is_empty()) by_server[kept.server].push_back(uid);
        std::vector<Task<void>> questions;
        for (auto& [server, uids] : by_server)
            questions.push_back(watch_server(server, std::move(uids)));
        co_await runtime::all_of(std::move(questions));
        std::vector<std::string> lost;
        for (const auto& [uid, kept] : kept_.all())
            if (kept.silent >= options_.silent_max) lost.push_back(uid);
        for (const std::string& uid : lost) co_await rescue(uid);
    }
}

Task<void> ExpertHost::watch_server(PeerId server, std::vector<std::string> uids) {
    AliveRequest request;
    request.uids = uids;
    const auto answer = co_await host_.call(
        server, alive_method, wire::encode(request), within(options_.watch_period));
    const auto response =
        answer ? wire::decode<AliveResponse>(*answer) : Result<AliveResponse>(answer.error());
    for (std::size_t i = 0; i < uids.size(); ++i) {
        Kept* kept = kept_.find(uids[i]);
        if (!kept || kept->server != server) continue;
        const bool serves = response && i < response->updates.size() && response->updates[i] != 0;
        if (!serves) {
            ++kept->silent;
            continue;
        }
        kept->silent = 0;
        kept->last_updates = std::max(kept->last_updates, response->updates[i] - 1);
    }
}

// An expert whose server is silent: it is ours to serve if we are the first of its keepers that is
// left, or if those before us have had their time.
Task<void> ExpertHost::rescue(std::string uid) {
    const auto parsed = ExpertUid::parse(uid);
    Kept* kept = kept_.find(uid);
    if (!parsed || !kept || leaving_) co_return;
    std::vector<ExpertUid> asked{*parsed};
    const auto named = co_await directory_.find(
        std::move(asked), dht::Freshness::latest, within(std::chrono::seconds(5)));
    kept = kept_.find(uid);
    if (!kept || !named.front()) co_return;
    if (*named.front() && **named.front() != kept->server) {
        // Somebody serves it already.
        kept->server = **named.front();
        kept->silent = 0;
        co_return;
    }
    const std::vector<PeerId> order = ranked(uid, ids_of(known_servers_, kept->server));
    const auto place = std::find(order.begin(), order.end(), host_.id());
    const auto rank = std::min<std::ptrdiff_t>(place - order.begin(), 4);
    // One period for each that comes before us.
    if (kept->silent < options_.silent_max + static_cast<int>(rank)) co_return;
    const auto turn = co_await in_.acquire(node_.clock, within(options_.watch_period));
    kept = kept_.find(uid);
    if (!turn || !kept || hosted_.contains(uid) || !may_serve_another()) co_return;
    const std::uint64_t lost = kept->last_updates - std::min(kept->last_updates, kept->updates);
    auto state = co_await kept_.read(node_.workers, uid);
    if (!state || hosted_.contains(uid) || leaving_) co_return;
    if (!serve(*parsed, (*state)->snapshot.get())) co_return;
    kept_.release(uid);
    ++counts_.taken_over;
    counts_.updates_lost += lost;
    hosted_.at(uid).declared = true;
    tell(fmt::format("taken over, {} updates lost:", lost), uid);
    const WallSeconds expiration = declared_until();
    std::vector<ExpertUid> uids{*parsed};
    (void)co_await directory_.declare(
        std::move(uids), host_.id(), expiration, within(std::chrono::seconds(5)));
}

}  // namespace dedloc::experts
