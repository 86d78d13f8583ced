#include "dedloc/state/transfer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "dedloc/runtime/together.h"
#include "dedloc/security/hash.h"
#include "dedloc/sim/world.h"
#include "dedloc/state/state_messages.h"

namespace dedloc::state {
namespace {

using Downloaded = Result<std::shared_ptr<const PublishedState>>;

std::shared_ptr<const PublishedState> some_state(std::uint64_t step, std::size_t megabytes) {
    SnapshotInfo info;
    info.step = step;
    info.extra = to_bytes("extra");
    std::vector<float> values((megabytes << 18) + 5);
    for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = static_cast<float>((i * 2654435761u + step) % 1000003);
    auto snapshot = *Snapshot::make(info, {{.name = "w", .values = std::move(values)}});
    auto manifest = make_manifest(*snapshot);
    return std::make_shared<PublishedState>(
        PublishedState{.snapshot = std::move(snapshot), .manifest = std::move(manifest)});
}

struct Provider {
    explicit Provider(sim::SimNode& given, Gate gate = {}, ServeLimits limits = {})
        : machine(given),
          store(given.clock()),
          server(given.host(), store, std::move(gate), limits) {}
    sim::SimNode& machine;
    SnapshotStore store;
    StateServer server;
};

// Says the right things until it comes to chunks.
Task<void> lie(std::shared_ptr<const PublishedState> state,
               std::unique_ptr<p2p::MessageStream> stream) {
    while (true) {
        auto request = co_await stream->read();
        if (!request || !request->has_value()) co_return;
        const auto asked = wire::decode<ChunkRequest>(**request);
        Bytes bytes = chunk(*state->snapshot, static_cast<std::size_t>(asked->index));
        bytes[bytes.size() / 2] ^= 1;
        if (!co_await stream->write(std::move(bytes))) co_return;
    }
}

Task<Result<Bytes>> true_manifest(std::shared_ptr<const PublishedState> state) {
    co_return wire::encode(state->manifest);
}

Task<Result<Bytes>> false_manifest(std::shared_ptr<const PublishedState> state) {
    Manifest manifest = state->manifest;
    manifest.chunks[0] = manifest.chunks[1];
    co_return wire::encode(manifest);
}

void make_liar(sim::SimNode& machine,
               std::shared_ptr<const PublishedState> state,
               bool about_manifest) {
    machine.host().handle_call(manifest_method, [state, about_manifest](PeerId, Bytes) {
        return about_manifest ? false_manifest(state) : true_manifest(state);
    });
    machine.host().handle_stream(chunk_method, [state](std::unique_ptr<p2p::MessageStream> stream) {
        return lie(state, std::move(stream));
    });
}

class Transfer : public ::testing::Test {
  protected:
    Provider& provider(const std::shared_ptr<const PublishedState>& state,
                       double upload = 12.5e6,
                       ServeLimits limits = {},
                       Gate gate = {}) {
        sim::NodeOptions options;
        options.upload_bytes_per_s = upload;
        providers.push_back(
            std::make_unique<Provider>(world.add_node(options), std::move(gate), limits));
        if (state) providers.back()->store.put(state);
        return *providers.back();
    }
    std::vector<PeerId> all_providers() {
        std::vector<PeerId> ids;
        for (const auto& each : providers) ids.push_back(each->machine.id());
        return ids;
    }
    DownloadOptions options(Duration timeout = 300s) {
        DownloadOptions chosen;
        chosen.deadline = newcomer.clock().now() + timeout;
        return chosen;
    }
    static Task<void> run(Transfer& test,
                          PartialState& partial,
                          std::vector<PeerId> from,
                          DownloadOptions options,
                          Downloaded& out) {
        out = co_await download(
            test.newcomer.host(), test.workers, partial, std::move(from), std::move(options));
    }
    Downloaded fetch(PartialState& partial, std::vector<PeerId> from, DownloadOptions chosen) {
        Downloaded out = make_error(ErrorKind::cancelled, "not run");
        world.run_task(run(*this, partial, std::move(from), std::move(chosen), out));
        return out;
    }

    sim::World world{4711};
    sim::SimNode& newcomer = world.add_node({.name = "newcomer"});
    runtime::Workers& workers = newcomer.runtime().workers;
    std::vector<std::unique_ptr<Provider>> providers;
};

TEST_F(Transfer, takes_a_state_from_many_providers_at_once) {
    const auto state = some_state(1, 40);
    // The newcomer's link is the fastest, so four providers are needed to fill it.
    newcomer.options().download_bytes_per_s = 50e6;
    for (int i = 0; i < 4; ++i) provider(state);
    PartialState partial(state->root());
    std::uint64_t last = 0;
    DownloadOptions chosen = options();
    chosen.progress = [&](const DownloadProgress& progress) {
        EXPECT_GT(progress.bytes_have, last);
        last = progress.bytes_have;
        EXPECT_EQ(progress.bytes_total, state->manifest.bytes);
    };
    const TimePoint begun = world.now();
    const auto got = fetch(partial, all_providers(), chosen);
    ASSERT_TRUE(got) << to_string(got.error());
    EXPECT_EQ((*got)->manifest, state->manifest);
    EXPECT_EQ(make_manifest(*(*got)->snapshot), state->manifest) << "bit for bit";
    EXPECT_EQ(last, state->manifest.bytes);
    for (const auto& [peer, report] : partial.providers()) {
        EXPECT_GE(report.chunks, 6u);
        EXPECT_FALSE(report.lied);
    }
    const double alone = static_cast<double>(state->manifest.bytes) / 12.5e6;
    EXPECT_LT(to_seconds(world.now() - begun), 0.45 * alone);
}

TEST_F(Transfer, survives_a_liar_a_dying_and_a_slow_provider_and_names_them) {
    const auto state = some_state(1, 24);
    Provider& good = provider(state);
    Provider& dying = provider(state);
    Provider& slow = provider(state, 2e4);
    sim::SimNode& liar = world.add_node({.name = "liar"});
    make_liar(liar, state, /*about_manifest=*/false);
    sim::SimNode& false_one = world.add_node({.name = "false"});
    make_liar(false_one, state, /*about_manifest=*/true);
    world.after(300ms, [&] { dying.machine.kill(); });

    std::vector<PeerId> from{
        false_one.id(), liar.id(), dying.machine.id(), slow.machine.id(), good.machine.id()};
    PartialState partial(state->root());
    const TimePoint begun = world.now();
    const auto got = fetch(partial, from, options());
    ASSERT_TRUE(got) << to_string(got.error());
    EXPECT_EQ(make_manifest(*(*got)->snapshot), state->manifest);
    EXPECT_TRUE(partial.providers().at(liar.id()).lied);
    EXPECT_EQ(partial.providers().at(liar.id()).chunks, 0u);
    EXPECT_TRUE(partial.providers().at(false_one.id()).lied);
    EXPECT_FALSE(partial.providers().at(good.machine.id()).lied);
    EXPECT_FALSE(partial.providers().at(slow.machine.id()).lied);
    EXPECT_GE(partial.providers().at(dying.machine.id()).failures, 1u);
    // The slow provider needs 52 s for a chunk; nobody waits for it.
    EXPECT_LT(to_seconds(world.now() - begun), 15.0);
}

TEST_F(Transfer, goes_on_after_a_break_without_asking_twice) {
    const auto state = some_state(1, 30);
    Provider& only = provider(state, 5e6);
    PartialState partial(state->root());
    const auto first = fetch(partial, all_providers(), options(3s));
    ASSERT_FALSE(first);
    EXPECT_EQ(first.error().kind(), ErrorKind::timeout);
    const std::size_t have = partial.chunks_have();
    EXPECT_GT(have, 5u);
    EXPECT_LT(have, 30u);
    const std::uint64_t before = only.server.bytes_sent();
    const auto second = fetch(partial, all_providers(), options());
    ASSERT_TRUE(second) << to_string(second.error());
    EXPECT_EQ(make_manifest(*(*second)->snapshot), state->manifest);
    EXPECT_LE(only.server.bytes_sent() - before, (31 - have + 1) * chunk_bytes);
}

// Each time hello has to be said again first.
TEST_F(Transfer, goes_on_when_the_only_provider_was_lost_for_a_while_again_and_again) {
    bool is_member = true;
    const Gate gate = [&is_member](const PeerId&) { return is_member; };
    const auto state = some_state(9, 16);
    provider(state, 0.5e6, {}, gate);
    for (const double at : {4.0, 24.0, 44.0}) {
        world.after(from_seconds(at), [&] {
            world.partition({{"newcomer"}, {providers.front()->machine.name()}});
            is_member = false;
        });
        world.after(from_seconds(at + 13), [this] { world.end_partition(); });
        world.after(from_seconds(at + 15), [&is_member] { is_member = true; });
    }
    PartialState partial(state->root());
    const auto loaded = fetch(partial, all_providers(), options());
    ASSERT_TRUE(loaded) << to_string(loaded.error());
    EXPECT_GT(newcomer.clock().now().since_start, 44s);
    const ProviderReport& report = partial.providers().at(providers.front()->machine.id());
    EXPECT_GE(report.failures, 3u);
    EXPECT_LE(report.chunks, 17u) << "nothing comes twice";
}

TEST_F(Transfer, a_provider_that_is_gone_for_good_is_given_up_soon) {
    const auto state = some_state(9, 8);
    provider(state, 0.5e6);
    provider(nullptr);  // connected, and without the state
    world.after(4s, [this] { providers.front()->machine.kill(); });
    PartialState partial(state->root());
    const auto loaded = fetch(partial, all_providers(), options());
    ASSERT_FALSE(loaded);
    EXPECT_EQ(loaded.error().kind(), ErrorKind::peer_gone) << to_string(loaded.error());
    EXPECT_LT(newcomer.clock().now().since_start, 60s);
    EXPECT_GT(partial.chunks_have(), 0u);
}

TEST_F(Transfer, a_state_can_be_loaded_again_after_it_was_completed) {
    const auto state = some_state(1, 5);
    provider(state, 5e6);
    PartialState partial(state->root());
    for (int time = 0; time < 2; ++time) {
        const auto loaded = fetch(partial, all_providers(), options());
        ASSERT_TRUE(loaded) << to_string(loaded.error());
        ASSERT_TRUE((*loaded)->snapshot);
        EXPECT_EQ(make_manifest(*(*loaded)->snapshot), state->manifest);
    }
}

TEST_F(Transfer, goes_on_after_a_restart_from_what_is_on_disk) {
    const auto state = some_state(1, 20);
    Provider& only = provider(state, 5e6);
    {
        PartialState partial(state->root(), newcomer.disk(), "partial");
        ASSERT_FALSE(fetch(partial, all_providers(), options(2s)));
        EXPECT_GT(partial.chunks_have(), 3u);
    }
    // One chunk was damaged meanwhile: it does not count.
    const auto names = newcomer.disk().list("partial");
    ASSERT_TRUE(names);
    const std::size_t saved = names->size() - 1;
    const Bytes damaged(chunk_bytes, 7);
    ASSERT_TRUE(newcomer.disk().write_atomically("partial/" + names->front(), damaged));
    const std::uint64_t before = only.server.bytes_sent();
    PartialState partial(state->root(), newcomer.disk(), "partial");
    const auto got = fetch(partial, all_providers(), options());
    ASSERT_TRUE(got) << to_string(got.error());
    EXPECT_EQ(make_manifest(*(*got)->snapshot), state->manifest);
    EXPECT_LE(only.server.bytes_sent() - before, (21 - saved + 2) * chunk_bytes);
    EXPECT_FALSE(newcomer.disk().list("partial")) << "tidied up";
}

TEST_F(Transfer, busy_providers_refuse_and_are_asked_again_or_passed_over) {
    const auto state = some_state(1, 12);
    Provider& busy = provider(state, 12.5e6, {.lanes_max = 1, .lanes_per_peer_max = 1});
    Provider& closed = provider(state, 12.5e6, {}, [](const PeerId&) { return false; });
    provider(nullptr);  // does not have it
    PartialState partial(state->root());
    const auto got = fetch(partial, all_providers(), options());
    ASSERT_TRUE(got) << to_string(got.error());
    EXPECT_GE(busy.server.refused(), 1u);
    world.run_for(1s);
    EXPECT_EQ(busy.server.lanes(), 0u) << "given back";
    EXPECT_EQ(partial.providers().at(closed.machine.id()).chunks, 0u);
    EXPECT_NE(partial.providers().at(closed.machine.id()).trouble.find("may not ask"),
              std::string::npos);
}

TEST_F(Transfer, a_state_that_nobody_has_is_not_found) {
    provider(some_state(1, 1));
    provider(some_state(2, 1));
    PartialState partial(security::sha256(as_bytes("another")));
    const auto got = fetch(partial, all_providers(), options());
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().kind(), ErrorKind::not_found);
    EXPECT_FALSE(fetch(partial, {}, options()));
}

TEST_F(Transfer, a_state_beyond_the_limit_is_refused_before_it_is_fetched) {
    const auto state = some_state(1, 3);
    Provider& only = provider(state);
    PartialState partial(state->root());
    DownloadOptions chosen = options();
    chosen.bytes_max = 1 << 20;
    const auto got = fetch(partial, all_providers(), chosen);
    ASSERT_FALSE(got);
    EXPECT_EQ(got.error().kind(), ErrorKind::bad_input);
    EXPECT_EQ(only.server.bytes_sent(), 0u);
}

TEST_F(Transfer, a_provider_that_trains_on_keeps_the_state_of_a_running_download) {
    const auto state = some_state(1, 20);
    Provider& only = provider(state, 5e6);
    for (int i = 1; i <= 8; ++i)
        world.after(i * 400ms, [&only, i] {
            only.store.put(some_state(1 + static_cast<std::uint64_t>(i), 1));
        });
    PartialState partial(state->root());
    const auto got = fetch(partial, all_providers(), options());
    ASSERT_TRUE(got) << to_string(got.error());
    EXPECT_EQ(only.store.newest()->snapshot->step(), 9u);
    world.run_for(StoreLimits{}.lease + 1s);
    only.store.put(some_state(20, 1));
    EXPECT_EQ(only.store.find(state->root()), nullptr) << "the lease has ended";
}

void make_silent(sim::SimNode& machine, std::shared_ptr<const PublishedState> state) {
    machine.host().handle_call(manifest_method,
                               [state](PeerId, Bytes) { return true_manifest(state); });
    machine.host().handle_stream(chunk_method,
                                 [](std::unique_ptr<p2p::MessageStream> stream) -> Task<void> {
                                     (void)co_await stream->read();
                                     (void)co_await stream->read();
                                 });
}

// A provider's bytes are on their way for long here, and the end of a lane would overtake them.
constexpr ServeLimits patient{.request_wait_max = 1h};

// Sixteen chunks at once take longer than anybody waits for one; a few at a time do not.
class SlowLine : public Transfer, public testing::WithParamInterface<double> {};

TEST_P(SlowLine, takes_fewer_chunks_at_a_time) {
    const auto state = some_state(1, 20);
    newcomer.options().download_bytes_per_s = GetParam();
    for (int i = 0; i < 8; ++i) provider(state, 12.5e6, patient);
    PartialState partial(state->root());
    const TimePoint begun = world.now();
    const auto got = fetch(partial, all_providers(), options(1h));
    ASSERT_TRUE(got) << to_string(got.error());
    const double line = static_cast<double>(state->manifest.bytes) / GetParam();
    EXPECT_LT(to_seconds(world.now() - begun), 2 * line + 100);
}

INSTANTIATE_TEST_SUITE_P(Rates, SlowLine, testing::Values(5e4, 8e4, 2e5), [](const auto& rate) {
    return fmt::format("at_{:.0f}_kB_a_second", rate.param / 1e3);
});

// All lanes are late at the same moment, and one is left: the silent provider, who comes first,
// would have it for as long as a chunk may take, time after time.
TEST_F(Transfer, where_one_chunk_comes_at_a_time_each_provider_has_its_turn) {
    const auto state = some_state(1, 6);
    newcomer.options().download_bytes_per_s = 1.2e4;  // 87 s for a chunk
    sim::SimNode& silent = world.add_node({.name = "silent"});
    make_silent(silent, state);
    Provider& good = provider(state, 12.5e6, patient);
    PartialState partial(state->root());
    const TimePoint begun = world.now();
    const auto got = fetch(partial, {silent.id(), good.machine.id()}, options(1h));
    ASSERT_TRUE(got) << to_string(got.error());
    EXPECT_LT(to_seconds(world.now() - begun), 1000);
    EXPECT_EQ(partial.providers().at(silent.id()).chunks, 0u);
}

// ---- co-downloaders: who comes at the same time
// ------------------------------------------------------

// Loads a state and gives on what has come.
struct Newcomer {
    Newcomer(sim::World& world, const Digest& root)
        : machine(world.add_node({})),
          store(machine.clock()),
          server(machine.host(), store, {}),
          partial(std::make_shared<PartialState>(root)) {
        store.set_arriving(partial);
    }
    Task<void> load(std::vector<PeerId> providers, DownloadOptions options) {
        out = co_await download(machine.host(),
                                machine.runtime().workers,
                                *partial,
                                std::move(providers),
                                std::move(options));
        if (out) store.put(*out);
    }
    sim::SimNode& machine;
    SnapshotStore store;
    StateServer server;
    std::shared_ptr<PartialState> partial;
    Downloaded out = make_error(ErrorKind::cancelled, "not run");
};

class CoDownloaders : public Transfer {
  protected:
    void come(std::size_t count, const Digest& root) {
        for (std::size_t i = 0; i < count; ++i)
            newcomers.push_back(std::make_unique<Newcomer>(world, root));
    }
    std::vector<PeerId> others(const Newcomer& than) const {
        std::vector<PeerId> ids = more_co_downloaders;
        for (const auto& each : newcomers)
            if (each.get() != &than) ids.push_back(each->machine.id());
        return ids;
    }
    // Seconds until all have ended.
    double all_load(std::vector<PeerId> from, Duration timeout = 300s) {
        const TimePoint begun = world.now();
        std::vector<Task<void>> loading;
        for (auto& each : newcomers) {
            DownloadOptions chosen = options(timeout);
            chosen.co_downloaders = [this, each = each.get()] { return others(*each); };
            loading.push_back(each->load(from, std::move(chosen)));
        }
        world.run_task(runtime::all_of(std::move(loading)));
        return to_seconds(world.now() - begun);
    }
    std::vector<std::unique_ptr<Newcomer>> newcomers;
    std::vector<PeerId> more_co_downloaders;
};

TEST_F(CoDownloaders, give_each_other_what_the_only_provider_gives_once) {
    const auto state = some_state(1, 40);
    Provider& only = provider(state, 2e6);  // 21 s for one copy
    come(8, state->root());
    const double seconds = all_load(all_providers());
    for (const auto& each : newcomers) {
        ASSERT_TRUE(each->out) << to_string(each->out.error());
        EXPECT_EQ((*each->out)->root(), state->root());
        EXPECT_EQ(make_manifest(*(*each->out)->snapshot).root, state->root());
    }
    EXPECT_LT(seconds, 21 * 2);  // instead of eight times
    EXPECT_LT(only.server.bytes_sent(), 2 * state->manifest.bytes);
}

TEST_F(CoDownloaders, go_on_when_the_provider_is_gone_if_they_have_all_of_it_among_them) {
    const auto state = some_state(1, 16);
    Provider& only = provider(state, 2e6);
    come(4, state->root());
    world.after(14s, [&only] { only.machine.kill(); });
    (void)all_load(all_providers());
    for (const auto& each : newcomers) EXPECT_TRUE(each->out) << to_string(each->out.error());
}

TEST_F(CoDownloaders, say_soon_that_no_provider_is_left_if_they_lack_something) {
    const auto state = some_state(1, 40);
    Provider& only = provider(state, 2e6);
    come(3, state->root());
    world.after(5s, [&only] { only.machine.kill(); });
    EXPECT_LT(all_load(all_providers()), 120);
    for (const auto& each : newcomers) {
        ASSERT_FALSE(each->out);
        EXPECT_EQ(each->out.error().kind(), ErrorKind::peer_gone);
    }
}

TEST_F(CoDownloaders, are_not_waited_for_when_they_went_on_to_another_state) {
    const auto state = some_state(1, 40);
    Provider& only = provider(state, 2e6);
    Provider elsewhere(world.add_node({}));
    more_co_downloaders.push_back(elsewhere.machine.id());
    come(1, state->root());
    world.after(5s, [&only] { only.machine.kill(); });
    EXPECT_LT(all_load(all_providers()),
              45);  // the provider for 20 s after its connection was lost
    ASSERT_FALSE(newcomers[0]->out);
    EXPECT_EQ(newcomers[0]->out.error().kind(), ErrorKind::peer_gone);
}

// Sixteen chunks at once would take longer than anybody waits for one, and all be sent in vain.
TEST_F(CoDownloaders, of_a_provider_with_a_very_slow_line_come_a_few_at_a_time) {
    const auto state = some_state(1, 8);
    Provider& only = provider(state, 1e5);  // 84 s for one copy
    come(12, state->root());
    EXPECT_LT(all_load(all_providers(), 1000s), 84 * 2);
    for (const auto& each : newcomers) EXPECT_TRUE(each->out) << to_string(each->out.error());
    EXPECT_GT(only.server.refused(), 0u);
}

TEST_F(Transfer, a_slow_provider_serves_many_who_load_different_states) {
    sim::NodeOptions slow;
    slow.upload_bytes_per_s = 2e5;
    Provider only(world.add_node(slow));
    std::vector<std::unique_ptr<Newcomer>> newcomers;
    std::vector<Task<void>> loading;
    for (std::uint64_t i = 1; i <= 8; ++i) {
        const auto state = some_state(i, 2);
        only.store.put(state);
        only.store.pin(state->root());
        newcomers.push_back(std::make_unique<Newcomer>(world, state->root()));
        loading.push_back(newcomers.back()->load({only.machine.id()}, options(600s)));
    }
    world.run_task(runtime::all_of(std::move(loading)));
    for (const auto& each : newcomers) EXPECT_TRUE(each->out) << to_string(each->out.error());
    EXPECT_LT(only.server.bytes_sent(), 8 * 3'000'000u) << "nothing is sent twice";
}

// The peer reads nothing of what it asks for.
Task<void> hold_lanes(sim::SimNode& machine, PeerId from, Digest root) {
    std::vector<std::unique_ptr<p2p::MessageStream>> lanes;
    for (int i = 0; i < 4; ++i) {
        auto stream =
            co_await machine.host().open_stream(from, chunk_method, machine.clock().now() + 10s);
        if (!stream) co_return;
        Bytes request = wire::encode(ChunkRequest{.root = root, .index = 0});
        (void)co_await (*stream)->write(std::move(request));
        lanes.push_back(*std::move(stream));
    }
    co_await machine.clock().sleep_for(1000s);
}

TEST_F(Transfer, a_reader_that_reads_nothing_keeps_no_other_from_a_provider) {
    const auto state = some_state(1, 8);
    Provider& only = provider(state);
    sim::SimNode& idler = world.add_node({.name = "idler"});
    runtime::Scope scope(idler.runtime().executor);
    scope.spawn("hold lanes", hold_lanes(idler, only.machine.id(), state->root()));
    for (const Duration later : {1s, 130s, 130s}) {  // also when its lanes have been given up
        world.run_for(later);
        PartialState partial(state->root());
        const TimePoint begun = world.now();
        const auto got = fetch(partial, all_providers(), options());
        ASSERT_TRUE(got) << to_string(got.error());
        EXPECT_LT(to_seconds(world.now() - begun), 10);
    }
    world.run_task(scope.stop());
}

TEST_F(CoDownloaders, who_were_dropped_in_a_download_before_are_asked_once_more) {
    const auto state = some_state(1, 8);
    Provider& only = provider(state, 2e6);
    sim::SimNode& machine = world.add_node({.name = "co-downloader"});
    more_co_downloaders.push_back(machine.id());
    machine.host().handle_call(have_method, [](PeerId, Bytes) -> Task<Result<Bytes>> {
        co_return Bytes(3, 0xff);  // cannot be read
    });
    come(1, state->root());
    world.after(2s, [&only] { only.machine.kill(); });
    (void)all_load(all_providers());
    ASSERT_FALSE(newcomers[0]->out);
    EXPECT_TRUE(newcomers[0]->partial->providers().at(machine.id()).dropped);
    machine.host().remove_handler(have_method);
    Provider co_downloader(machine);
    co_downloader.store.put(state);
    (void)all_load({});
    EXPECT_TRUE(newcomers[0]->out) << to_string(newcomers[0]->out.error());
}

TEST_F(CoDownloaders, that_lie_or_never_answer_are_dropped_and_the_provider_gives_the_rest) {
    const auto state = some_state(1, 12);
    provider(state, 4e6);
    sim::SimNode& liar = world.add_node({.name = "liar"});
    make_liar(liar, state, false);
    sim::SimNode& silent = world.add_node({.name = "silent"});
    for (sim::SimNode* bad : {&liar, &silent}) {
        more_co_downloaders.push_back(bad->id());
        bad->host().handle_call(have_method, [](PeerId, Bytes) -> Task<Result<Bytes>> {
            co_return wire::encode(HaveReply{.bits = Bytes(2, 0xff), .coming = {}});
        });
    }
    silent.host().handle_stream(chunk_method,
                                [](std::unique_ptr<p2p::MessageStream> stream) -> Task<void> {
                                    (void)co_await stream->read();
                                    (void)co_await stream->read();
                                });
    come(2, state->root());
    EXPECT_LT(all_load(all_providers()), 120);
    for (const auto& each : newcomers) {
        ASSERT_TRUE(each->out) << to_string(each->out.error());
        EXPECT_TRUE(each->partial->providers().at(liar.id()).lied);
    }
}

}  // namespace
}  // namespace dedloc::state
