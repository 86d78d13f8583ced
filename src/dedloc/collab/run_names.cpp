#include "dedloc/collab/run_names.h"

#include <algorithm>

#include "dedloc/base/log.h"
#include "dedloc/base/printable.h"
#include "dedloc/run/join_string.h"

namespace dedloc::collab {

namespace {

constexpr Duration naming_max = std::chrono::seconds(20);
constexpr Duration name_soon_again = std::chrono::seconds(3);  // while the table is empty

}  // namespace

dht::DhtId key_of_run_name(std::string_view name) {
    return dht::DhtId::of_text("dedloc-run:" + std::string(name));
}

Result<NamedRun> named_run_from(ByteView payload) {
    DEDLOC_TRY(NamedRun run, wire::decode<NamedRun>(payload));
    for (const std::string& address : run.addresses) {
        if (address.size() > named_address_bytes_max)
            return make_error(ErrorKind::bad_input, "an address of a run is too long");
        DEDLOC_TRY_VOID(run::split_peer_address(address));
    }
    run.task = base::printable(run.task.substr(0, run_name_bytes_max));
    return run;
}

Task<Result<std::vector<FoundRun>>> find_runs(dht::DhtNode& table,
                                              std::string name,
                                              TimePoint deadline) {
    auto stored = co_await table.get(key_of_run_name(name), dht::Freshness::latest, deadline);
    if (!stored) co_return std::move(stored).error();
    std::vector<FoundRun> runs;
    if (*stored)
        for (const dht::SignedEntry& entry : dht::signed_entries(**stored)) {
            auto run = named_run_from(entry.payload);
            if (run)
                runs.push_back({.organiser = entry.signer,
                                .run = *std::move(run),
                                .expiration = entry.expiration});
        }
    std::ranges::sort(runs, [](const FoundRun& a, const FoundRun& b) {
        return a.run.peers != b.run.peers ? a.run.peers > b.run.peers : a.expiration > b.expiration;
    });
    if (runs.size() > named_runs_max) runs.resize(named_runs_max);
    co_return runs;
}

RunNameService::RunNameService(const Node& node, std::string name, std::function<NamedRun()> now)
    : node_(node), name_(std::move(name)), now_(std::move(now)) {
    node_.run_on_network_thread([this] {
        DEDLOC_CHECK(node_.dht() != nullptr, "join_table() before a run is named");
        scope_ = std::make_unique<runtime::Scope>(node_.host().executor());
        scope_->spawn("name the run", keep_the_name());
    });
}

Task<void> RunNameService::stop() { co_await scope_->stop(); }

Task<void> RunNameService::keep_the_name() {
    for (;;) {
        const NamedRun run = now_();
        const WallSeconds expiration = node_.dht()->wall_now() + named_for_s;
        const TimePoint deadline = node_.clock().now() + naming_max;
        const bool is_alone = node_.dht()->table().size() == 0;
        const auto stored = co_await node_.dht()->store_signed(
            node_.signer(), key_of_run_name(name_), wire::encode(run), expiration, deadline);
        if (!stored)
            log(LogLevel::debug, "collab", "the run is not named: {}", stored.error().message());
        co_await node_.clock().sleep_for(stored && !is_alone ? name_again : name_soon_again);
    }
}

}  // namespace dedloc::collab
