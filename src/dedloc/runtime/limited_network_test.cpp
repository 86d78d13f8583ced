// Caps on real sockets of this machine, which may be busy: never too fast is exact, too slow is
// not.

#include "dedloc/runtime/limited_network.h"

#include <gtest/gtest.h>

#include "dedloc/base/random.h"
#include "dedloc/runtime/real.h"
#include "dedloc/runtime/runtime_testing.h"
#include "dedloc/runtime/scope.h"

namespace dedloc::runtime {
namespace {

constexpr std::size_t sent_bytes = 2'000'000;
constexpr double cap = 2e6;
// The bucket was full, and the last portion that is received is not paid any more.
constexpr double free_seconds = 0.06;
constexpr double least_seconds = sent_bytes / cap - free_seconds;
constexpr double most_seconds = 15;  // of a machine that does other things as well

struct LimitedPair {
    explicit LimitedPair(const LineCaps& caps) { limited.set_caps(caps); }
    Loop loop;
    std::unique_ptr<Clock> clock = real_clock(loop.executor());
    std::unique_ptr<Network> line = real_network(loop.executor());
    LimitedNetwork limited{*line, *clock};
};

Task<void> send_all(Connection& connection, const Bytes& bytes) {
    auto written = co_await connection.write(bytes);
    EXPECT_TRUE(written);
}

Task<void> receive_all(Connection& connection, const Bytes& expected, std::size_t& received) {
    Bytes buffer(100'000);
    Bytes got;
    while (got.size() < expected.size()) {
        auto count = co_await connection.read_some(buffer);
        EXPECT_TRUE(count && *count > 0);
        if (!count || *count == 0) co_return;
        base::append(got, ByteView(buffer).first(*count));
        received += *count;
    }
    EXPECT_EQ(got, expected);
}

// From one network to the other, over so many connections at once; what is sent is shared evenly.
struct Transfer {
    Network& from;
    Network& to;
    std::size_t connections = 1;
    double seconds = 0;
    std::vector<std::size_t> received{};
    std::function<void()> on_begin{};
};

Task<void> carry(LimitedPair& pair, Transfer& transfer) {
    const SocketAddress any{"127.0.0.1", 0};
    auto listener = transfer.to.listen(any);
    EXPECT_TRUE(listener);
    const Bytes bytes = Random(7).bytes(sent_bytes / transfer.connections);
    transfer.received.resize(transfer.connections);
    std::vector<std::unique_ptr<Connection>> ends;
    Scope scope(pair.loop.executor());
    const TimePoint begun = pair.clock->now();
    for (std::size_t& received : transfer.received) {
        const TimePoint deadline = begun + 20s;
        auto dialled = co_await transfer.from.connect((*listener)->local(), deadline);
        auto accepted = co_await (*listener)->accept();
        EXPECT_TRUE(dialled && accepted);
        scope.spawn("send", send_all(**dialled, bytes));
        scope.spawn("receive", receive_all(**accepted, bytes, received));
        ends.push_back(*std::move(dialled));
        ends.push_back(*std::move(accepted));
    }
    if (transfer.on_begin) transfer.on_begin();
    while (scope.running() > 0) co_await a_moment(*pair.clock);
    transfer.seconds = to_seconds(pair.clock->now() - begun);
    co_await scope.stop();
}

TEST(LimitedNetwork, sends_no_faster_than_the_cap_and_about_as_fast) {
    LimitedPair pair({.up = cap, .down = 0});
    Transfer transfer{.from = pair.limited, .to = *pair.line};
    pair.loop.run_task(carry(pair, transfer));
    EXPECT_GE(transfer.seconds, least_seconds);
    EXPECT_LE(transfer.seconds, most_seconds);
}

TEST(LimitedNetwork, receives_no_faster_than_the_cap_and_about_as_fast) {
    LimitedPair pair({.up = 0, .down = cap});
    Transfer transfer{.from = *pair.line, .to = pair.limited};
    pair.loop.run_task(carry(pair, transfer));
    EXPECT_GE(transfer.seconds, least_seconds);
    EXPECT_LE(transfer.seconds, most_seconds);
}

TEST(LimitedNetwork, all_connections_share_one_cap) {
    LimitedPair pair({.up = cap, .down = 0});
    Transfer transfer{.from = pair.limited, .to = *pair.line, .connections = 4};
    pair.loop.run_task(carry(pair, transfer));
    EXPECT_GE(transfer.seconds, least_seconds);
    EXPECT_LE(transfer.seconds, most_seconds);
}

TEST(LimitedNetwork, caps_concern_accepted_connections_too_and_each_way_alone) {
    LimitedPair pair({.up = cap, .down = 1});
    auto body = [](LimitedPair& both, double& seconds) -> Task<void> {
        const SocketAddress any{"127.0.0.1", 0};
        auto listener = both.limited.listen(any);
        const TimePoint deadline = both.clock->now() + 20s;
        auto dialled = co_await both.line->connect((*listener)->local(), deadline);
        auto accepted = co_await (*listener)->accept();
        const Bytes bytes = Random(7).bytes(sent_bytes);
        std::size_t received = 0;
        Scope scope(both.loop.executor());
        const TimePoint begun = both.clock->now();
        scope.spawn("send", send_all(**accepted, bytes));
        co_await receive_all(**dialled, bytes, received);
        seconds = to_seconds(both.clock->now() - begun);
        co_await scope.stop();
    };
    double seconds = 0;
    pair.loop.run_task(body(pair, seconds));
    EXPECT_GE(seconds, least_seconds);
    EXPECT_LE(seconds, most_seconds);
}

TEST(LimitedNetwork, a_cap_that_is_lifted_holds_back_nothing_any_more) {
    LimitedPair pair({.up = 1'000, .down = 1'000});
    Transfer transfer{.from = pair.limited, .to = pair.limited};
    transfer.on_begin = [&pair] {
        pair.clock->call_at(pair.clock->now() + 20ms, [&pair] { pair.limited.set_caps({}); });
    };
    pair.loop.run_task(carry(pair, transfer));
    EXPECT_LE(transfer.seconds, most_seconds);
}

TEST(LimitedNetwork, closing_ends_a_write_and_a_read_that_wait_for_their_turn) {
    LimitedPair pair({.up = 1, .down = 1});
    auto write = [](Connection& connection, const Bytes& bytes, bool& failed) -> Task<void> {
        auto written = co_await connection.write(bytes);
        failed = !written;
    };
    auto read = [](Connection& connection, bool& ended) -> Task<void> {
        Bytes buffer(1'000);
        for (std::size_t count = 1; count > 0;) {
            auto some = co_await connection.read_some(buffer);
            count = some ? *some : 0;
        }
        ended = true;
    };
    bool failed = false;
    bool ended = false;
    auto body =
        [](LimitedPair& both, auto writer, auto reader, bool& wrote, bool& got) -> Task<void> {
        const SocketAddress any{"127.0.0.1", 0};
        auto listener = both.limited.listen(any);
        const TimePoint deadline = both.clock->now() + 20s;
        auto ours = co_await both.limited.connect((*listener)->local(), deadline);
        auto theirs = co_await (*listener)->accept();
        const Bytes bytes(100'000);
        Scope scope(both.loop.executor());
        scope.spawn("write", writer(**ours, bytes, wrote));
        scope.spawn("read", reader(**theirs, got));
        co_await a_moment(*both.clock);
        EXPECT_FALSE(wrote || got);
        (*ours)->close();
        (*theirs).reset();
        while (scope.running() > 0) co_await a_moment(*both.clock);
        co_await scope.stop();
    };
    pair.loop.run_task(body(pair, write, read, failed, ended));
    EXPECT_TRUE(failed);
    EXPECT_TRUE(ended);
}

}  // namespace
}  // namespace dedloc::runtime
