// Calls and streams between simulated hosts, and what faults do to them.

#include <gtest/gtest.h>

#include "dedloc/runtime/deadline.h"
#include "dedloc/sim/world.h"

namespace dedloc::sim {
namespace {

p2p::CallHandler echo_handler() {
    return [](PeerId, Bytes request) -> Task<Result<Bytes>> { co_return std::move(request); };
}

struct TwoHosts {
    explicit TwoHosts(std::uint64_t seed = 1, WorldOptions options = {}) : world(seed, options) {
        NodeOptions first;
        first.name = "a";
        NodeOptions second;
        second.name = "b";
        a = &world.add_node(first);
        b = &world.add_node(second);
        b->host().handle_call("echo", echo_handler());
    }
    World world;
    SimNode* a;
    SimNode* b;
};

Task<void> call_once(SimNode& from,
                     PeerId to,
                     std::string method,
                     Bytes request,
                     Duration timeout,
                     std::optional<Result<Bytes>>& out) {
    const TimePoint deadline = from.clock().now() + timeout;
    auto result =
        co_await from.host().call(std::move(to), std::move(method), std::move(request), deadline);
    out.emplace(std::move(result));
}

Result<Bytes> call(World& world, SimNode& from, SimNode& to, std::string text, Duration timeout) {
    std::optional<Result<Bytes>> out;
    world.run_task(
        call_once(from, to.id(), "echo", to_bytes(std::string_view(text)), timeout, out));
    return *out;
}

TEST(SimHost, a_call_is_answered_and_takes_its_round_trips) {
    TwoHosts t;
    auto first = call(t.world, *t.a, *t.b, "hello", 10s);
    ASSERT_TRUE(first) << to_string(first.error());
    EXPECT_EQ(as_text(*first), "hello");
    // Two round trips for the connection, one for the call, of 40 ms each.
    EXPECT_NEAR(to_seconds(t.world.now().since_start), 0.120, 0.001);
    auto second = call(t.world, *t.a, *t.b, "again", 10s);
    ASSERT_TRUE(second);
    EXPECT_NEAR(to_seconds(t.world.now().since_start), 0.160, 0.001);
    EXPECT_EQ(*t.a->host().round_trip(t.b->id()), 40ms);
    EXPECT_EQ(t.b->host().connected_peers(), std::vector<PeerId>{t.a->id()});
}

TEST(SimHost, unknown_methods_errors_of_handlers_and_deadlines_reach_the_caller) {
    TwoHosts t;
    t.b->host().handle_call("refuse", [](PeerId, Bytes) -> Task<Result<Bytes>> {
        co_return Error(ErrorKind::conflict, "not my run");
    });
    runtime::Clock& clock = t.b->clock();
    t.b->host().handle_call("slow", [&clock](PeerId, Bytes) {
        auto body = [](runtime::Clock& c) -> Task<Result<Bytes>> {
            co_await c.sleep_for(100s);
            co_return Bytes();
        };
        return body(clock);
    });
    std::optional<Result<Bytes>> out;
    t.world.run_task(call_once(*t.a, t.b->id(), "nothing", Bytes(), 5s, out));
    EXPECT_EQ(out->error().kind(), ErrorKind::unsupported);
    t.world.run_task(call_once(*t.a, t.b->id(), "refuse", Bytes(), 5s, out));
    EXPECT_EQ(out->error(), Error(ErrorKind::conflict, "not my run"));
    const TimePoint before = t.world.now();
    t.world.run_task(call_once(*t.a, t.b->id(), "slow", Bytes(), 5s, out));
    EXPECT_EQ(out->error().kind(), ErrorKind::timeout);
    EXPECT_EQ(t.world.now() - before, 5s);
    t.world.run_task(call_once(*t.a, t.b->id(), "echo", Bytes(p2p::call_bytes_max + 1), 5s, out));
    EXPECT_EQ(out->error().kind(), ErrorKind::bad_input);
}

struct Unwound {
    explicit Unwound(bool& given) : flag(given) {}
    ~Unwound() { flag = true; }
    bool& flag;
};

TEST(SimHost, a_handler_is_cancelled_when_the_caller_gives_up) {
    TwoHosts t;
    bool unwound = false;
    runtime::Clock& clock = t.b->clock();
    t.b->host().handle_call("slow", [&clock, &unwound](PeerId, Bytes) {
        auto body = [](runtime::Clock& c, bool& flag) -> Task<Result<Bytes>> {
            const Unwound guard(flag);
            co_await c.sleep_for(1000s);
            co_return Bytes();
        };
        return body(clock, unwound);
    });
    std::optional<Result<Bytes>> out;
    t.world.run_task(call_once(*t.a, t.b->id(), "slow", Bytes(), 5s, out));
    EXPECT_FALSE(unwound);
    t.world.run_for(21ms);  // the cancellation travels
    EXPECT_TRUE(unwound);
}

TEST(SimHost, both_dialling_at_once_end_with_one_connection) {
    for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        TwoHosts t(seed);
        t.a->host().handle_call("echo", echo_handler());
        auto events = std::make_shared<int>(0);  // a listener lives as long as its host
        t.a->host().on_connection([events](const PeerId&, bool up) { *events += up ? 1 : 100; });
        std::optional<Result<Bytes>> ab;
        std::optional<Result<Bytes>> ba;
        t.world.scope().spawn("ab", call_once(*t.a, t.b->id(), "echo", Bytes(3), 5s, ab));
        t.world.scope().spawn("ba", call_once(*t.b, t.a->id(), "echo", Bytes(4), 5s, ba));
        t.world.run_for(1s);
        ASSERT_TRUE(ab && ba && *ab && *ba) << seed;
        EXPECT_EQ(*events, 1);
    }
}

Task<void> serve_stream(std::unique_ptr<p2p::MessageStream> stream) {
    // Sums lengths, answers after the end.
    std::uint64_t total = 0;
    for (;;) {
        auto message = co_await stream->read();
        if (!message) co_return;
        if (!*message) break;
        total += (**message)->size();
    }
    auto written = co_await stream->write(to_bytes(std::string_view(std::to_string(total))));
    if (!written) co_return;
    auto finished = co_await stream->finish();
    EXPECT_TRUE(finished);
}

Task<void> push_bytes(SimNode& from,
                      PeerId to,
                      std::size_t messages,
                      std::size_t bytes,
                      std::string& answer,
                      TimePoint& done) {
    const TimePoint deadline = from.clock().now() + 100s;
    auto opened = co_await from.host().open_stream(std::move(to), "sum", deadline);
    EXPECT_TRUE(opened);
    auto stream = *std::move(opened);
    for (std::size_t i = 0; i < messages; ++i) {
        auto written = co_await stream->write(Bytes(bytes));
        EXPECT_TRUE(written);
    }
    auto finished = co_await stream->finish();
    EXPECT_TRUE(finished);
    auto read = co_await stream->read();
    EXPECT_TRUE(read && *read);
    if (read && *read) answer = std::string(as_text(**read));
    auto end = co_await stream->read();
    EXPECT_TRUE(end && !*end);
    done = from.clock().now();
}

TEST(SimHost, a_stream_moves_bytes_at_the_rate_of_the_slowest_line) {
    for (const double rate : {12.5e6, 2e6}) {
        TwoHosts t;
        t.b->options().download_bytes_per_s = rate;
        t.b->host().handle_stream("sum", serve_stream);
        std::string answer;
        TimePoint done;
        t.world.run_task(push_bytes(*t.a, t.b->id(), 200, 256 * 1024, answer, done));
        EXPECT_EQ(answer, std::to_string(200u * 256 * 1024));
        const double expected = 200.0 * 256 * 1024 / rate + 4 * 0.040;
        EXPECT_NEAR(to_seconds(done.since_start) / expected, 1.0, 0.01) << rate;
    }
}

TEST(SimHost, senders_share_the_receivers_line) {
    World world(3);
    for (int i = 0; i < 5; ++i) world.add_node();
    world.node(0).host().handle_stream("sum", serve_stream);
    std::vector<std::string> answers(5);
    std::vector<TimePoint> done(5);
    for (std::size_t i = 1; i < 5; ++i)
        world.scope().spawn(
            "push",
            push_bytes(world.node(i), world.node(0).id(), 100, 128 * 1024, answers[i], done[i]));
    world.run_for(60s);
    const double expected = 4 * 100.0 * 128 * 1024 / 12.5e6;
    for (std::size_t i = 1; i < 5; ++i) {
        EXPECT_EQ(answers[i], std::to_string(100u * 128 * 1024));
        EXPECT_LT(to_seconds(done[i].since_start), 1.05 * expected + 0.2);
        EXPECT_GT(to_seconds(done[i].since_start), 0.9 * expected);  // nobody much before
    }
}

TEST(SimHost, a_small_call_does_not_wait_for_bulk) {
    TwoHosts t;
    t.b->host().handle_stream("sum", serve_stream);
    std::string answer;
    TimePoint done;
    t.world.scope().spawn("push", push_bytes(*t.a, t.b->id(), 100, 1 << 20, answer, done));
    t.world.run_for(1s);
    const TimePoint before = t.world.now();
    auto result = call(t.world, *t.a, *t.b, "hello", 10s);
    EXPECT_TRUE(result);
    EXPECT_LT(t.world.now() - before, 45ms);
    t.world.run_for(20s);
    EXPECT_FALSE(answer.empty());
}

// 2.5 MB take 0.2 s on both lines; they are given to the line at once, after 80 ms of dialling.
TEST(SimHost, a_line_counts_what_has_had_the_time_to_leave) {
    TwoHosts t;
    std::optional<Result<Bytes>> out;
    const auto go = [&t, &out] {
        return call_once(*t.a, t.b->id(), "nothing", Bytes(2'500'000), 5s, out);
    };
    t.world.scope().spawn("call", go());
    t.world.run_for(180ms);
    EXPECT_NEAR(static_cast<double>(t.a->host().traffic().sent_bytes), 1.25e6, 2e4);
    EXPECT_NEAR(static_cast<double>(t.b->host().traffic().received_bytes), 1e6, 2e4);
    EXPECT_LT(t.a->host().traffic().received_bytes, 1000u);
    t.a->options().upload_bytes_per_s *= 4;  // what was given before takes its time all the same
    EXPECT_NEAR(static_cast<double>(t.a->host().traffic().sent_bytes), 1.25e6, 2e4);
    t.world.run_for(1s);
    EXPECT_NEAR(static_cast<double>(t.a->host().traffic().sent_bytes), 2.5e6, 2e4);
    EXPECT_NEAR(static_cast<double>(t.b->network().traffic().received_bytes), 2.5e6, 2e4);
}

TEST(SimHost, a_reader_that_does_not_read_blocks_the_writer) {
    TwoHosts t;
    std::unique_ptr<p2p::MessageStream> kept;
    t.b->host().handle_stream("keep", [&kept](std::unique_ptr<p2p::MessageStream> stream) {
        kept = std::move(stream);
        auto body = []() -> Task<void> { co_return; };
        return body();
    });
    int written = 0;
    auto writer = [](SimNode& from, PeerId to, int& count) -> Task<void> {
        const TimePoint deadline = from.clock().now() + 100s;
        auto opened = co_await from.host().open_stream(std::move(to), "keep", deadline);
        auto stream = *std::move(opened);
        for (;;) {
            auto result = co_await stream->write(Bytes(1 << 20));
            if (!result) co_return;
            ++count;
        }
    };
    t.world.scope().spawn("writer", writer(*t.a, t.b->id(), written));
    t.world.run_for(60s);
    EXPECT_EQ(written, 4);  // the window
    auto reader = [](p2p::MessageStream& stream) -> Task<void> {
        for (int i = 0; i < 8; ++i) {
            auto message = co_await stream.read();
            EXPECT_TRUE(message && *message);
        }
    };
    t.world.run_task(reader(*kept));
    t.world.run_for(60s);
    EXPECT_GE(written, 8);
    EXPECT_LE(written, 12);
    kept.reset();  // resets: the writer ends
    t.world.run_for(1s);
    EXPECT_EQ(t.world.scope().running(), 0u);
}

TEST(SimHost, streams_tell_failures_and_unknown_methods) {
    TwoHosts t;
    t.b->host().handle_stream("fail", [](std::unique_ptr<p2p::MessageStream> stream) {
        auto body = [](std::unique_ptr<p2p::MessageStream> s) -> Task<void> {
            auto first = co_await s->write(Bytes(1));
            auto result = co_await s->fail(Error(ErrorKind::overloaded, "too much"));
            EXPECT_TRUE(first && result);
        };
        return body(std::move(stream));
    });
    auto body = [](SimNode& from, PeerId to) -> Task<void> {
        const TimePoint deadline = from.clock().now() + 10s;
        auto unknown = co_await from.host().open_stream(to, "nothing", deadline);
        EXPECT_EQ(unknown.error().kind(), ErrorKind::unsupported);
        auto opened = co_await from.host().open_stream(to, "fail", deadline);
        auto stream = *std::move(opened);
        auto first = co_await stream->read();
        EXPECT_TRUE(first && *first);
        auto second = co_await stream->read();
        EXPECT_EQ(second.error(), Error(ErrorKind::overloaded, "too much"));
    };
    t.world.run_task(body(*t.a, t.b->id()));
}

TEST(SimHost, a_killed_process_is_noticed_at_once_and_starts_again) {
    TwoHosts t;
    ASSERT_TRUE(call(t.world, *t.a, *t.b, "x", 5s));
    auto events = std::make_shared<std::vector<bool>>();
    t.a->host().on_connection([events](const PeerId&, bool up) { events->push_back(up); });
    runtime::Clock& clock = t.b->clock();
    t.b->host().handle_call("slow", [&clock](PeerId, Bytes) {
        auto body = [](runtime::Clock& c) -> Task<Result<Bytes>> {
            co_await c.sleep_for(1s);
            ADD_FAILURE() << "a dead process went on";
            co_return Bytes();
        };
        return body(clock);
    });
    std::optional<Result<Bytes>> out;
    t.world.after(500ms, [&t] { t.b->kill(); });
    const TimePoint before = t.world.now();
    t.world.run_task(call_once(*t.a, t.b->id(), "slow", Bytes(), 60s, out));
    EXPECT_EQ(out->error().kind(), ErrorKind::peer_gone);
    EXPECT_EQ(t.world.now() - before, 520ms);
    EXPECT_EQ(*events, std::vector<bool>{false});
    EXPECT_FALSE(t.b->alive());
    // Refused: the machine is there, the process is not.
    EXPECT_EQ(call(t.world, *t.a, *t.b, "x", 5s).error().kind(), ErrorKind::peer_gone);
    t.world.run_for(10s);
    t.world.run_task(t.b->host().stop());
    t.b->restart();
    t.b->host().handle_call("echo", echo_handler());
    auto again = call(t.world, *t.a, *t.b, "back", 5s);
    ASSERT_TRUE(again) << to_string(again.error());
    EXPECT_EQ(as_text(*again), "back");
    EXPECT_EQ(t.b->incarnation(), 1u);
}

TEST(SimHost, a_lost_machine_is_noticed_only_by_deadline_and_keepalive) {
    TwoHosts t;
    ASSERT_TRUE(call(t.world, *t.a, *t.b, "x", 5s));
    t.b->lose_machine();
    const TimePoint before = t.world.now();
    EXPECT_EQ(call(t.world, *t.a, *t.b, "x", 2s).error().kind(), ErrorKind::timeout);
    EXPECT_TRUE(t.a->host().is_connected(t.b->id()));
    EXPECT_EQ(call(t.world, *t.a, *t.b, "x", 60s).error().kind(), ErrorKind::peer_gone);
    EXPECT_EQ(t.world.now() - before, 10s);
    EXPECT_FALSE(t.a->host().is_connected(t.b->id()));
}

TEST(SimHost, a_short_partition_delays_a_long_one_disconnects) {
    TwoHosts t;
    ASSERT_TRUE(call(t.world, *t.a, *t.b, "x", 5s));
    t.world.partition({{"a"}, {"b"}});
    t.world.after(3s, [&t] { t.world.heal(); });
    const TimePoint before = t.world.now();
    auto late = call(t.world, *t.a, *t.b, "late", 20s);
    ASSERT_TRUE(late) << to_string(late.error());
    EXPECT_GT(t.world.now() - before, 3s);
    EXPECT_LT(t.world.now() - before, 4s);
    t.world.partition({{"a"}, {"b"}});
    auto gone = call(t.world, *t.a, *t.b, "gone", 60s);
    EXPECT_EQ(gone.error().kind(), ErrorKind::peer_gone);
    EXPECT_EQ(call(t.world, *t.a, *t.b, "no way", 5s).error().kind(), ErrorKind::timeout);
    t.world.heal();
    EXPECT_TRUE(call(t.world, *t.a, *t.b, "back", 20s));
}

TEST(SimHost, a_block_in_one_direction_stops_answers_only) {
    TwoHosts t;
    int served = 0;
    t.b->host().handle_call("count", [&served](PeerId, Bytes) {
        ++served;
        auto body = []() -> Task<Result<Bytes>> { co_return Bytes(); };
        return body();
    });
    ASSERT_TRUE(call(t.world, *t.a, *t.b, "x", 5s));
    t.world.block(*t.b, *t.a);
    std::optional<Result<Bytes>> out;
    t.world.run_task(call_once(*t.a, t.b->id(), "count", Bytes(), 2s, out));
    EXPECT_EQ(out->error().kind(), ErrorKind::timeout);
    EXPECT_EQ(served, 1);
    t.world.unblock(*t.b, *t.a);
    EXPECT_TRUE(call(t.world, *t.a, *t.b, "x", 5s));
}

TEST(SimHost, a_frozen_process_answers_late) {
    TwoHosts t;
    ASSERT_TRUE(call(t.world, *t.a, *t.b, "x", 5s));
    t.b->freeze_for(4s);
    EXPECT_TRUE(t.b->frozen());
    EXPECT_TRUE(t.b->alive());
    const TimePoint before = t.world.now();
    auto late = call(t.world, *t.a, *t.b, "late", 20s);
    ASSERT_TRUE(late) << to_string(late.error());
    EXPECT_EQ(t.world.now() - before, 4s + 20ms + Duration(t.world.now() - before) % 1ms);
    t.b->freeze_for(30s);
    EXPECT_EQ(call(t.world, *t.a, *t.b, "x", 60s).error().kind(), ErrorKind::peer_gone);
    t.world.run_for(30s);
    EXPECT_FALSE(t.b->host().is_connected(t.a->id()));  // it has learnt that too
    EXPECT_TRUE(call(t.world, *t.a, *t.b, "back", 20s));
}

TEST(SimHost, dialling_a_frozen_process_that_then_dies_is_refused) {
    TwoHosts t;
    t.b->freeze();
    t.world.after(2s, [&t] { t.b->kill(); });
    EXPECT_EQ(call(t.world, *t.a, *t.b, "x", 60s).error().kind(), ErrorKind::peer_gone);
    EXPECT_EQ(t.world.now().since_start, 2s + 20ms);
    t.world.run_task(t.b->host().stop());
    t.b->restart();
    t.b->host().handle_call("echo", echo_handler());
    EXPECT_TRUE(call(t.world, *t.a, *t.b, "x", 5s));
    // A connection to a frozen peer is given up.
    t.a->host().disconnect(t.b->id());
    t.world.run_for(1s);
    t.b->freeze();
    const TimePoint before = t.world.now();
    EXPECT_EQ(call(t.world, *t.a, *t.b, "x", 60s).error().kind(), ErrorKind::peer_gone);
    EXPECT_EQ(t.world.now() - before, 10s);
}

TEST(SimHost, timers_of_a_frozen_process_fire_when_it_wakes) {
    TwoHosts t;
    TimePoint woke;
    auto sleeper = [](runtime::Clock& clock, TimePoint& at) -> Task<void> {
        co_await clock.sleep_for(1s);
        at = clock.now();
    };
    t.world.scope().spawn("sleeper", sleeper(t.b->clock(), woke));
    t.world.run_for(1ms);
    t.b->freeze_for(5s);
    t.world.run_for(10s);
    EXPECT_EQ(woke.since_start, 5s + 1ms);
}

TEST(SimHost, without_addresses_and_in_client_mode_a_peer_cannot_be_dialled) {
    WorldOptions options;
    options.everyone_knows_everyone = false;
    TwoHosts t(1, options);
    EXPECT_EQ(call(t.world, *t.a, *t.b, "x", 5s).error().kind(), ErrorKind::peer_gone);
    t.a->host().add_addresses(t.b->id(), t.b->host().addresses());
    EXPECT_TRUE(call(t.world, *t.a, *t.b, "x", 5s));
    t.a->host().disconnect(t.b->id());
    t.world.run_for(1s);
    EXPECT_FALSE(t.b->host().is_connected(t.a->id()));
    t.b->options().dialable = false;
    EXPECT_TRUE(t.b->host().addresses().empty());
    EXPECT_EQ(call(t.world, *t.a, *t.b, "x", 5s).error().kind(), ErrorKind::peer_gone);
    // The other way round works, and then the connection serves both.
    auto dial = [](SimNode& from, std::string address) -> Task<void> {
        const TimePoint deadline = from.clock().now() + 5s;
        auto peer = co_await from.host().dial(address, deadline);
        EXPECT_TRUE(peer) << to_string(peer.error());
        auto wrong = co_await from.host().dial("nonsense", deadline);
        EXPECT_EQ(wrong.error().kind(), ErrorKind::bad_input);
    };
    t.world.run_task(dial(*t.b, t.a->address() + "/p2p/" + t.a->id().text()));
    EXPECT_TRUE(call(t.world, *t.a, *t.b, "x", 5s));
}

TEST(SimHost, losses_delay_and_do_not_lose) {
    TwoHosts t(9);
    LinkOptions link;
    link.loss = 0.2;
    link.jitter = 5ms;
    t.world.set_link(*t.a, *t.b, link);
    int answered = 0;
    for (int i = 0; i < 200; ++i)
        if (call(t.world, *t.a, *t.b, "x", 60s)) ++answered;
    EXPECT_GT(answered, 190);  // a few connections break
    EXPECT_GT(t.world.stats().messages_lost, 40u);
}

// Twice as long after each loss, from 16 s on.
TEST(SimHost, a_connection_that_losses_hold_up_for_long_is_lost) {
    TwoHosts t(9);
    LinkOptions link;
    link.latency = 2s;
    link.loss = 0.4;
    t.world.set_link(*t.a, *t.b, link);
    Duration longest{0};
    for (int i = 0; i < 100; ++i) {
        const TimePoint before = t.world.now();
        (void)call(t.world, *t.a, *t.b, "x", 600s);
        longest = std::max(longest, t.world.now() - before);
    }
    EXPECT_LT(longest, 60s);
}

TEST(SimHost, stopping_ends_handlers_and_tells_the_peers) {
    TwoHosts t;
    ASSERT_TRUE(call(t.world, *t.a, *t.b, "x", 5s));
    t.world.run_task(t.b->host().stop());
    t.world.run_for(21ms);
    EXPECT_FALSE(t.a->host().is_connected(t.b->id()));
    EXPECT_EQ(call(t.world, *t.a, *t.b, "x", 5s).error().kind(), ErrorKind::peer_gone);
    EXPECT_EQ(call(t.world, *t.b, *t.a, "x", 5s).error().kind(), ErrorKind::peer_gone);
}

}  // namespace
}  // namespace dedloc::sim
