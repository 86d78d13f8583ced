// TCP on loopback.

#include <algorithm>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/socket.h>

#include "dedloc/base/random.h"
#include "dedloc/runtime/deadline.h"
#include "dedloc/runtime/real.h"
#include "dedloc/runtime/runtime_testing.h"
#include "dedloc/runtime/scope.h"
#include "dedloc/runtime/suspend.h"

namespace dedloc::runtime {
namespace {

struct NetworkFixture {
    Loop loop;
    std::unique_ptr<Clock> clock = real_clock(loop.executor());
    std::unique_ptr<Network> network = real_network(loop.executor());
    TimePoint late() const { return clock->now() + 20s; }
};

Task<void> echo(Listener& listener) {
    auto accepted = co_await listener.accept();
    EXPECT_TRUE(accepted);
    auto connection = *std::move(accepted);
    Bytes buffer(100000);
    for (;;) {
        auto count = co_await connection->read_some(buffer);
        if (!count || *count == 0) co_return;
        const ByteView view = ByteView(buffer).first(*count);
        auto written = co_await connection->write(view);
        if (!written) co_return;
    }
}

Task<void> write_then_stop(Connection& connection, const Bytes& bytes) {
    auto written = co_await connection.write(bytes);
    EXPECT_TRUE(written);
}

Task<void> talk_to_echo(NetworkFixture& f, std::string host) {
    SocketAddress any{host, 0};
    auto listener = f.network->listen(any);
    EXPECT_TRUE(listener) << to_string(listener.error());
    const SocketAddress there = (*listener)->local();
    EXPECT_NE(there.port, 0);
    Scope scope(f.loop.executor());
    scope.spawn("echo", echo(**listener));
    auto connected = co_await f.network->connect(there, f.late());
    EXPECT_TRUE(connected) << to_string(connected.error());
    auto connection = *std::move(connected);
    EXPECT_EQ(connection->remote(), there);
    const Bytes sent = Random(7).bytes(3 << 20);
    scope.spawn("writer", write_then_stop(*connection, sent));
    Bytes got;
    Bytes buffer(1 << 20);
    while (got.size() < sent.size()) {
        auto count = co_await connection->read_some(buffer);
        EXPECT_TRUE(count && *count > 0);
        if (!count || *count == 0) break;
        base::append(got, ByteView(buffer).first(*count));
    }
    EXPECT_EQ(got, sent);
    connection->close();
    co_await scope.stop();
}

// Finds this process's connected socket with that local port: a Connection does not show its own.
std::string control_of(const SocketAddress& local) {
    constexpr int files_looked_at = 256;
    for (int socket = 0; socket < files_looked_at; ++socket) {
        sockaddr_in here{};
        sockaddr_in there{};
        socklen_t size = sizeof here;
        if (::getpeername(socket, reinterpret_cast<sockaddr*>(&there), &size) != 0) continue;
        size = sizeof here;
        (void)::getsockname(socket, reinterpret_cast<sockaddr*>(&here), &size);
        if (here.sin_family != AF_INET || ntohs(here.sin_port) != local.port) continue;
        std::string name(16, '\0');
        size = static_cast<socklen_t>(name.size());
        (void)::getsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), &size);
        return name.c_str();
    }
    return "no such socket";
}

Task<void> check_a_pair(NetworkFixture& f, std::vector<std::string>& controls) {
    const SocketAddress any{"127.0.0.1", 0};
    auto listener = f.network->listen(any);
    EXPECT_TRUE(listener);
    const SocketAddress there = (*listener)->local();
    auto dialled = co_await f.network->connect(there, f.late());
    auto accepted = co_await (*listener)->accept();
    EXPECT_TRUE(dialled && accepted);
    if (!dialled || !accepted) co_return;
    controls = {control_of((*dialled)->local()), control_of((*accepted)->local())};
}

Task<void> ask_for_the_distance(NetworkFixture& f) {
    const SocketAddress any{"127.0.0.1", 0};
    auto listener = f.network->listen(any);
    EXPECT_TRUE(listener);
    const SocketAddress there = (*listener)->local();
    auto dialled = co_await f.network->connect(there, f.late());
    EXPECT_TRUE(dialled);
    if (!dialled) co_return;
    const auto distance = (*dialled)->network_round_trip();
    EXPECT_TRUE(distance);
    EXPECT_GT(distance.value_or(Duration(0)), Duration(0));
    (*dialled)->close();
    EXPECT_FALSE((*dialled)->network_round_trip());
}

// Nobody accepts it, reads from it or answers: it is not the program's time that is measured.
TEST(RealNetwork, a_connection_knows_how_far_the_network_is_without_the_other_programs_help) {
    NetworkFixture f;
    f.loop.run_task(ask_for_the_distance(f));
}

TEST(RealNetwork, bytes_come_back_from_an_echo_over_ipv4) {
    NetworkFixture f;
    f.loop.run_task(talk_to_echo(f, "127.0.0.1"));
}

// Neither 127.0.0.1 nor any other address of this machine leads over its line. (What does is
// counted in `dedloc-lab links`, which needs several machines.)
TEST(RealNetwork, what_stays_on_the_machine_is_on_no_line) {
    NetworkFixture f;
    f.loop.run_task(talk_to_echo(f, "127.0.0.1"));
    f.loop.run_task(talk_to_echo(f, f.network->interface_addresses().front()));
    EXPECT_EQ(f.network->traffic().sent_bytes, 0u);
    EXPECT_EQ(f.network->traffic().received_bytes, 0u);
}

TEST(RealNetwork, bytes_come_back_from_an_echo_over_ipv6) {
    NetworkFixture f;
    SocketAddress any{"::1", 0};
    if (!f.network->listen(any)) GTEST_SKIP() << "this machine has no IPv6 loopback";
    f.loop.run_task(talk_to_echo(f, "::1"));
}

TEST(RealNetwork, connections_of_both_ends_have_the_congestion_control_that_was_asked_for) {
    ASSERT_TRUE(may_use_congestion_control("reno"));  // every kernel has it
    NetworkFixture f;
    f.network = real_network(f.loop.executor(), "reno");
    std::vector<std::string> controls;
    f.loop.run_task(check_a_pair(f, controls));
    EXPECT_EQ(controls, (std::vector<std::string>{"reno", "reno"}));
}

// Pacing is off for every setting of the system (bbr paces, with timers that cost more than
// loopback itself).
TEST(RealNetwork, connections_of_one_machine_are_not_paced) {
    NetworkFixture f;
    std::vector<std::string> controls;
    f.loop.run_task(check_a_pair(f, controls));
    EXPECT_EQ(controls, (std::vector<std::string>{"reno", "reno"}));
}

TEST(RealNetwork, a_congestion_control_that_the_system_lacks_is_refused_with_those_it_has) {
    const auto may = may_use_congestion_control("telepathy");
    ASSERT_FALSE(may);
    EXPECT_EQ(may.error().kind(), ErrorKind::bad_input);
    EXPECT_NE(may.error().message().find("telepathy"), std::string::npos);
    EXPECT_NE(may.error().message().find("reno"), std::string::npos);
}

TEST(RealNetwork, a_refused_connection_and_a_used_port_are_told_in_words) {
    NetworkFixture f;
    auto body = [](NetworkFixture& fixture) -> Task<void> {
        SocketAddress any{"127.0.0.1", 0};
        auto listener = fixture.network->listen(any);
        const SocketAddress there = (*listener)->local();
        auto second = fixture.network->listen(there);
        EXPECT_FALSE(second);
        EXPECT_EQ(second.error().kind(), ErrorKind::local_fault);
        EXPECT_NE(second.error().message().find("is in use by another program"), std::string::npos);
        (*listener)->close();
        auto refused = co_await fixture.network->connect(there, fixture.late());
        EXPECT_FALSE(refused);
        EXPECT_EQ(refused.error().kind(), ErrorKind::peer_gone);
        EXPECT_NE(refused.error().message().find("no program listens there"), std::string::npos);
        auto accepted = co_await (*listener)->accept();
        EXPECT_FALSE(accepted);
        SocketAddress nonsense{"not an address", 0};
        auto bad = fixture.network->listen(nonsense);
        EXPECT_EQ(bad.error().kind(), ErrorKind::bad_input);
        SocketAddress of_others{"203.0.113.77", 0};
        auto foreign = fixture.network->listen(of_others);
        EXPECT_NE(foreign.error().message().find("use 0.0.0.0"), std::string::npos);
    };
    f.loop.run_task(body(f));
}

// The dialler takes any port then; as after an outage, when the kernel still holds the old pair.
TEST(RealNetwork, a_pair_of_addresses_that_is_in_use_is_a_fault_of_this_machine) {
    NetworkFixture f;
    auto body = [](NetworkFixture& fixture) -> Task<void> {
        const SocketAddress any{"127.0.0.1", 0};
        auto ours = fixture.network->listen(any);
        auto theirs = fixture.network->listen(any);
        const std::uint16_t port = (*ours)->local().port;
        const SocketAddress there = (*theirs)->local();
        auto first = co_await fixture.network->connect_from(port, there, fixture.late());
        EXPECT_TRUE(first) << to_string(first.error());
        auto second = co_await fixture.network->connect_from(port, there, fixture.late());
        EXPECT_FALSE(second);
        if (second) co_return;
        EXPECT_EQ(second.error().kind(), ErrorKind::local_fault) << second.error().message();
        EXPECT_NE(second.error().message().find("already"), std::string::npos);
    };
    f.loop.run_task(body(f));
}

TEST(RealNetwork, names_are_resolved_and_unknown_ones_are_not_found) {
    NetworkFixture f;
    auto body = [](NetworkFixture& fixture) -> Task<void> {
        SocketAddress any{"127.0.0.1", 0};
        auto listener = fixture.network->listen(any);
        SocketAddress by_name{"localhost", (*listener)->local().port};
        auto connected = co_await fixture.network->connect(by_name, fixture.late());
        EXPECT_TRUE(connected) << to_string(connected.error());
        SocketAddress unknown{"no-such-host.invalid", 1};
        auto lost = co_await fixture.network->connect(unknown, fixture.late());
        EXPECT_FALSE(lost);
        EXPECT_TRUE(lost.error().kind() == ErrorKind::not_found ||
                    lost.error().kind() == ErrorKind::timeout);
    };
    f.loop.run_task(body(f));
}

Task<Result<std::size_t>> read_one(Connection& connection, Bytes& buffer) {
    return connection.read_some(buffer);
}

TEST(RealNetwork, a_read_ends_by_deadline_by_close_and_by_the_other_sides_end) {
    NetworkFixture f;
    auto body = [](NetworkFixture& fixture) -> Task<void> {
        SocketAddress any{"127.0.0.1", 0};
        auto listener = fixture.network->listen(any);
        auto connected = co_await fixture.network->connect((*listener)->local(), fixture.late());
        auto ours = *std::move(connected);
        auto accepted = co_await (*listener)->accept();
        auto theirs = *std::move(accepted);
        Bytes buffer(10);
        const TimePoint soon = fixture.clock->now() + 5ms;
        auto read = read_one(*ours, buffer);
        auto late = co_await with_deadline(*fixture.clock, soon, "a byte", std::move(read));
        EXPECT_EQ(late.error().kind(), ErrorKind::timeout);
        Connection* raw = ours.get();
        fixture.clock->call_at(fixture.clock->now() + 2ms, [raw] { raw->close(); });
        auto closed = co_await ours->read_some(buffer);
        EXPECT_TRUE(!closed || *closed == 0);
        auto end = co_await theirs->read_some(buffer);
        EXPECT_TRUE(end && *end == 0);
        theirs.reset();
    };
    f.loop.run_task(body(f));
}

TEST(RealNetwork, a_connection_may_be_destroyed_while_a_task_reads_from_it) {
    NetworkFixture f;
    auto reader = [](Connection& connection, bool& ended) -> Task<void> {
        Bytes buffer(10);
        auto got = co_await connection.read_some(buffer);
        EXPECT_TRUE(!got || *got == 0);
        ended = true;
    };
    bool ended = false;
    auto body = [](NetworkFixture& fixture, auto read, bool& flag) -> Task<void> {
        SocketAddress any{"127.0.0.1", 0};
        auto listener = fixture.network->listen(any);
        auto connected = co_await fixture.network->connect((*listener)->local(), fixture.late());
        auto ours = *std::move(connected);
        Scope scope(fixture.loop.executor());
        scope.spawn("reader", read(*ours, flag));
        co_await a_moment(*fixture.clock);
        ours.reset();
        co_await a_moment(*fixture.clock);
        EXPECT_TRUE(flag);
        co_await scope.stop();
    };
    f.loop.run_task(body(f, reader, ended));
}

TEST(RealNetwork, interfaces_are_listed) {
    NetworkFixture f;
    const auto all = f.network->interface_addresses();
    EXPECT_FALSE(all.empty());
    for (const std::string& outward : f.network->outward_addresses()) {
        EXPECT_EQ(std::ranges::count(all, outward), 1) << outward;
        EXPECT_FALSE(outward.starts_with("127.")) << outward;
    }
}

Task<void> connect_by_name(NetworkFixture& f, SocketAddress there, Result<void>& outcome) {
    auto connected = co_await f.network->connect(there, f.late());
    outcome = connected ? Result<void>() : Result<void>(std::move(connected).error());
}

// No thread can be started: there is no room for its stack, and none that is left over is as large.
class HugeStacks {
  public:
    HugeStacks() {
        pthread_attr_t huge;
        EXPECT_EQ(::pthread_getattr_default_np(&before_), 0);
        EXPECT_EQ(::pthread_getattr_default_np(&huge), 0);
        EXPECT_EQ(::pthread_attr_setstacksize(&huge, std::size_t{1} << 46), 0);
        EXPECT_EQ(::pthread_setattr_default_np(&huge), 0);
        ::pthread_attr_destroy(&huge);
    }
    ~HugeStacks() {
        EXPECT_EQ(::pthread_setattr_default_np(&before_), 0);
        ::pthread_attr_destroy(&before_);
    }

  private:
    pthread_attr_t before_;
};

// A peer's announced name must not end this process, where no thread can be started for it.
TEST(RealNetwork, a_name_for_which_no_thread_can_be_started_is_an_error_and_no_end) {
    NetworkFixture f;
    const SocketAddress anywhere{"127.0.0.1", 0};
    auto listener = f.network->listen(anywhere);
    ASSERT_TRUE(listener);
    const SocketAddress there{"localhost", (*listener)->local().port};
    Result<void> outcome;
    {
        const HugeStacks none;
        f.loop.run_task(connect_by_name(f, there, outcome));
    }
    ASSERT_FALSE(outcome);
    EXPECT_EQ(outcome.error().kind(), ErrorKind::not_found);
    f.loop.run_task(connect_by_name(f, there, outcome));
    EXPECT_TRUE(outcome) << outcome.error().message();
}

}  // namespace
}  // namespace dedloc::runtime
