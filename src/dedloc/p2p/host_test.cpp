// The real host against itself: every test runs on real loopback sockets and on the simulator's
// byte network in virtual time.
#include <gtest/gtest.h>
#include <numeric>

#include "dedloc/p2p/diagnostics.h"
#include "dedloc/p2p/host_testing.h"
#include "dedloc/p2p/make_host.h"
#include "dedloc/runtime/deadline.h"
#include "dedloc/runtime/real.h"
#include "dedloc/runtime/scope.h"
#include "dedloc/runtime/together.h"
#include "dedloc/sim/world.h"
#include "dedloc/wire/multistream.h"

namespace dedloc::p2p {
namespace {

enum class Kind { loopback, simulated };

// Where hosts live. Each gets a machine of its own in the simulator.
class TestWorld {
  public:
    explicit TestWorld(Kind kind) {
        if (kind == Kind::loopback) {
            loop_ = std::make_unique<runtime::Loop>();
            clock_ = runtime::real_clock(loop_->executor());
            network_ = runtime::real_network(loop_->executor());
        } else {
            world_ = std::make_unique<sim::World>(7);
        }
    }
    ~TestWorld() {
        for (auto& host : hosts_) {
            Host& stopped = *host;
            if (!stopped_.contains(&stopped)) run(stopped.stop());
        }
        hosts_.clear();
    }

    bool is_simulated() const { return world_ != nullptr; }
    sim::World& world() { return *world_; }
    void run(Task<void> task) {
        if (loop_)
            loop_->run_task(std::move(task));
        else
            world_->run_task(std::move(task));
    }
    void run_until(const std::function<bool()>& predicate, Duration at_most = 20s) {
        run(wait_until(&clock(), &predicate, at_most));
    }
    runtime::Clock& clock() {
        if (clock_) return *clock_;
        if (world_->nodes_count() == 0) world_->add_node({});
        return world_->node(0).clock();
    }

    HostOptions options(std::uint64_t seed, bool listens = true) {
        security::RandomFill fill = [random = std::make_shared<Random>(seed)](auto out) {
            for (auto& byte : out) byte = static_cast<std::uint8_t>(random->next());
        };
        const auto identity = security::Identity::generate(fill);
        if (loop_) {
            HostOptions made{.executor = loop_->executor(),
                             .clock = *clock_,
                             .network = *network_,
                             .random = Random(seed),
                             .identity = identity,
                             .listen = {},
                             .announce = {},
                             .strangers = HostOptions::Strangers::welcome};
            if (listens) made.listen = {"/ip4/127.0.0.1/tcp/0"};
            return made;
        }
        sim::SimNode& node = world_->add_node({});
        last_node_ = &node;
        HostOptions made{.executor = world_->executor(),
                         .clock = node.clock(),
                         .network = node.network(),
                         .random = Random(seed),
                         .identity = identity,
                         .listen = {},
                         .announce = {},
                         .strangers = HostOptions::Strangers::welcome};
        if (listens) made.listen = {"/ip4/0.0.0.0/tcp/4001"};
        return made;
    }
    Host& add(HostOptions options) {
        auto host = make_host(std::move(options));
        EXPECT_TRUE(host) << (host ? "" : host.error().message());
        hosts_.push_back(*std::move(host));
        return *hosts_.back();
    }
    Host& add(std::uint64_t seed, bool listens = true) { return add(options(seed, listens)); }
    void stop(Host& host) {
        stopped_.insert(&host);
        run(host.stop());
    }
    runtime::Network& network() { return loop_ ? *network_ : last_node_->network(); }
    sim::SimNode& last_node() { return *last_node_; }

  private:
    static Task<void> wait_until(runtime::Clock* clock,
                                 const std::function<bool()>* predicate,
                                 Duration at_most) {
        const TimePoint limit = clock->now() + at_most;
        while (!(*predicate)() && clock->now() < limit) co_await clock->sleep_for(1ms);
        EXPECT_TRUE((*predicate)());
    }

    std::unique_ptr<runtime::Loop> loop_;
    std::unique_ptr<runtime::Clock> clock_;
    std::unique_ptr<runtime::Network> network_;
    std::unique_ptr<sim::World> world_;
    sim::SimNode* last_node_ = nullptr;
    std::vector<std::unique_ptr<Host>> hosts_;
    std::set<Host*> stopped_;
};

void introduce(Host& from, Host& to) { from.add_addresses(to.id(), to.addresses()); }

class HostTest : public ::testing::TestWithParam<Kind> {
  protected:
    TestWorld world_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(On,
                         HostTest,
                         ::testing::Values(Kind::loopback, Kind::simulated),
                         [](const auto& kind) {
                             return kind.param == Kind::loopback ? "loopback" : "simulated";
                         });

Task<void> one_call(
    Host* host, PeerId peer, std::string method, Bytes request, Result<Bytes>* out) {
    const TimePoint deadline = host->clock().now() + 10s;
    *out = co_await host->call(peer, std::move(method), std::move(request), deadline);
}

Result<Bytes> call(TestWorld& world, Host& from, const PeerId& to, std::string method, Bytes data) {
    Result<Bytes> answer = Error(ErrorKind::cancelled, "did not run");
    world.run(one_call(&from, to, std::move(method), std::move(data), &answer));
    return answer;
}

TEST_P(HostTest, a_call_brings_its_answer) {
    Host& a = world_.add(1);
    Host& b = world_.add(2);
    b.handle_call("echo", echo);
    introduce(a, b);
    const auto answer = call(world_, a, b.id(), "echo", to_bytes("hello"));
    ASSERT_TRUE(answer) << answer.error().message();
    EXPECT_EQ(as_text(*answer), "hello");
    EXPECT_TRUE(a.is_connected(b.id()));
    EXPECT_TRUE(b.is_connected(a.id()));
}

TEST_P(HostTest, bytes_are_counted_by_peer) {
    Host& a = world_.add(1);
    Host& b = world_.add(2);
    Host& c = world_.add(3);
    b.handle_call("echo", echo);
    c.handle_call("echo", echo);
    introduce(a, b);
    introduce(a, c);
    constexpr std::size_t large = 1 << 20;
    ASSERT_TRUE(call(world_, a, b.id(), "echo", Bytes(large, 7)));
    ASSERT_TRUE(call(world_, a, c.id(), "echo", Bytes(large / 8, 7)));
    const PeerView& view = *view_of(a);
    const auto with_b = view.traffic_with(b.id());
    const auto with_c = view.traffic_with(c.id());
    for (const std::uint64_t bytes : {with_b.sent_bytes, with_b.received_bytes}) {
        EXPECT_GT(bytes, large);
        EXPECT_LT(bytes, large + large / 16);  // framing, and what both say of themselves
    }
    EXPECT_LT(with_c.sent_bytes, large / 4);
    EXPECT_EQ(view.traffic_with_all().sent_bytes, with_b.sent_bytes + with_c.sent_bytes);
    EXPECT_EQ(view.traffic_with(a.id()).sent_bytes, 0u);
    // The counters outlive the connection.
    a.disconnect(b.id());
    world_.run_until([&] { return !a.is_connected(b.id()); });
    EXPECT_GE(view.traffic_with(b.id()).sent_bytes, with_b.sent_bytes);
}

TEST_P(HostTest, empty_and_large_payloads_pass) {
    Host& a = world_.add(1);
    Host& b = world_.add(2);
    b.handle_call("echo", echo);
    introduce(a, b);
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, call_bytes_max}) {
        const Bytes sent = Random(size).bytes(size);
        const auto answer = call(world_, a, b.id(), "echo", sent);
        ASSERT_TRUE(answer) << answer.error().message();
        EXPECT_TRUE(*answer == sent);
    }
    const auto refused = call(world_, a, b.id(), "echo", Bytes(call_bytes_max + 1));
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind(), ErrorKind::bad_input);
}

Task<Result<Bytes>> refuse(PeerId, Bytes) {
    co_return Error(ErrorKind::conflict, "another run: ours has 3 layers");
}

TEST_P(HostTest, a_handlers_error_arrives_with_kind_and_message) {
    Host& a = world_.add(1);
    Host& b = world_.add(2);
    b.handle_call("refuse", refuse);
    introduce(a, b);
    const auto answer = call(world_, a, b.id(), "refuse", {});
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error(), Error(ErrorKind::conflict, "another run: ours has 3 layers"));
}

TEST_P(HostTest, a_method_that_is_not_there_is_unsupported) {
    Host& a = world_.add(1);
    Host& b = world_.add(2);
    introduce(a, b);
    const auto answer = call(world_, a, b.id(), "nothing", Bytes(100000));
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().kind(), ErrorKind::unsupported) << answer.error().message();
}

TEST_P(HostTest, the_callee_can_call_back_over_the_same_connection) {
    Host& a = world_.add(1, /*listens=*/false);
    Host& b = world_.add(2);
    a.handle_call("echo", echo);
    b.handle_call("echo", echo);
    introduce(a, b);
    EXPECT_TRUE(a.addresses().empty());
    ASSERT_TRUE(call(world_, a, b.id(), "echo", to_bytes("x")));
    const auto back = call(world_, b, a.id(), "echo", to_bytes("y"));
    ASSERT_TRUE(back) << back.error().message();
}

Task<void> dial_it(Host* host, std::string address, Result<PeerId>* out) {
    const TimePoint deadline = host->clock().now() + 10s;
    *out = co_await host->dial(std::move(address), deadline);
}

TEST_P(HostTest, dialling_an_address_tells_who_is_there) {
    Host& a = world_.add(1);
    Host& b = world_.add(2);
    Result<PeerId> found = Error(ErrorKind::cancelled, "");
    world_.run(dial_it(&a, b.addresses().at(0), &found));
    ASSERT_TRUE(found) << found.error().message();
    EXPECT_EQ(*found, b.id());
    EXPECT_TRUE(a.is_connected(b.id()));
}

TEST_P(HostTest, another_peer_than_expected_is_refused) {
    Host& a = world_.add(1);
    Host& b = world_.add(2);
    Host& c = world_.add(3);
    Result<PeerId> found = Error(ErrorKind::cancelled, "");
    world_.run(dial_it(&a, b.addresses().at(0) + "/p2p/" + c.id().text(), &found));
    ASSERT_FALSE(found);
    EXPECT_NE(found.error().message().find("answered"), std::string::npos)
        << found.error().message();
    EXPECT_FALSE(a.is_connected(b.id()));
    EXPECT_FALSE(a.is_connected(c.id()));
}

TEST_P(HostTest, a_peer_nobody_knows_or_that_is_not_there_is_gone) {
    Host& a = world_.add(1);
    Host& b = world_.add(2);
    const auto unknown = call(world_, a, b.id(), "echo", {});
    ASSERT_FALSE(unknown);
    EXPECT_EQ(unknown.error().kind(), ErrorKind::peer_gone);
    introduce(a, b);
    world_.stop(b);
    const auto gone = call(world_, a, b.id(), "echo", {});
    ASSERT_FALSE(gone);
    EXPECT_EQ(gone.error().kind(), ErrorKind::peer_gone) << gone.error().message();
}

Task<void> many_calls(Host* host, PeerId peer, int first, int count, int* good) {
    for (int i = first; i < first + count; ++i) {
        const Bytes sent = to_bytes(std::to_string(i));
        const TimePoint deadline = host->clock().now() + 30s;
        auto answer = co_await host->call(peer, "echo", sent, deadline);
        if (answer && *answer == sent) ++*good;
    }
}

TEST_P(HostTest, a_thousand_calls_at_once_are_all_answered) {
    Host& a = world_.add(1);
    Host& b = world_.add(2);
    b.handle_call("echo", echo);
    introduce(a, b);
    int good = 0;
    std::vector<Task<void>> tasks;
    for (int i = 0; i < 1000; ++i) tasks.push_back(many_calls(&a, b.id(), i, 1, &good));
    world_.run(runtime::all_of(std::move(tasks)));
    EXPECT_EQ(good, 1000);
}

TEST_P(HostTest, both_dialling_at_once_loses_no_call_and_ends_with_one_connection) {
    Host& a = world_.add(1);
    Host& b = world_.add(2);
    a.handle_call("echo", echo);
    b.handle_call("echo", echo);
    introduce(a, b);
    introduce(b, a);
    auto up = std::make_shared<int>(0);  // a listener lives as long as its host
    a.on_connection([up](const PeerId&, bool connected) { *up += connected ? 1 : -1; });
    int good = 0;
    std::vector<Task<void>> tasks;
    for (int i = 0; i < 20; ++i) {
        tasks.push_back(many_calls(&a, b.id(), 0, 20, &good));
        tasks.push_back(many_calls(&b, a.id(), 0, 20, &good));
    }
    world_.run(runtime::all_of(std::move(tasks)));
    EXPECT_EQ(good, 800);
    EXPECT_EQ(*up, 1);
}

// --------------------------------------------------------------------------------------- streams

Task<void> count_and_report(std::unique_ptr<MessageStream> stream) {
    std::uint64_t bytes = 0;
    std::uint64_t sum = 0;
    for (;;) {
        auto message = co_await stream->read();
        if (!message) co_return;
        if (!*message) break;
        const ByteView view = **message;
        bytes += view.size();
        for (const std::uint8_t byte : view) sum += byte;
    }
    Bytes report = to_bytes(fmt::format("{} {}", bytes, sum));
    auto written = co_await stream->write(std::move(report));
    if (!written) co_return;
    auto finished = co_await stream->finish();
    (void)finished;
}

Task<void> send_messages(
    Host* host, PeerId peer, int count, std::size_t size, std::string* report, std::uint64_t* sum) {
    const TimePoint deadline = host->clock().now() + 10s;
    auto stream = co_await host->open_stream(peer, "count", deadline);
    EXPECT_TRUE(stream);
    if (!stream) co_return;
    Random random(5);
    for (int i = 0; i < count; ++i) {
        Bytes message = random.bytes(size);
        *sum = std::accumulate(message.begin(), message.end(), *sum);
        auto written = co_await (*stream)->write(std::move(message));
        EXPECT_TRUE(written);
    }
    auto finished = co_await (*stream)->finish();
    EXPECT_TRUE(finished);
    auto answer = co_await (*stream)->read();
    EXPECT_TRUE(answer && *answer) << (answer ? "" : answer.error().message());
    if (answer && *answer) *report = std::string(as_text(**answer));
    auto end = co_await (*stream)->read();
    EXPECT_TRUE(end && !*end);
}

TEST_P(HostTest, a_hundred_megabytes_arrive_as_they_were_sent) {
    Host& a = world_.add(1);
    Host& b = world_.add(2);
    b.handle_stream("count", count_and_report);
    introduce(a, b);
    std::string report;
    std::uint64_t sum = 0;
    world_.run(send_messages(&a, b.id(), 100, 1'000'000, &report, &sum));
    EXPECT_EQ(report, fmt::format("100000000 {}", sum));
}

TEST_P(HostTest, streams_of_empty_messages_and_of_none_end_well) {
    Host& a = world_.add(1);
    Host& b = world_.add(2);
    b.handle_stream("count", count_and_report);
    introduce(a, b);
    std::string report;
    std::uint64_t sum = 0;
    world_.run(send_messages(&a, b.id(), 3, 0, &report, &sum));
    EXPECT_EQ(report, "0 0");
    world_.run(send_messages(&a, b.id(), 0, 0, &report, &sum));
    EXPECT_EQ(report, "0 0");
}

Task<void> fail_at_once(std::unique_ptr<MessageStream> stream) {
    Error error(ErrorKind::denied, "not for you");
    auto sent = co_await stream->fail(std::move(error));
    (void)sent;
}

Task<void> read_failure(Host* host, PeerId peer, std::optional<Error>* out) {
    const TimePoint deadline = host->clock().now() + 10s;
    auto stream = co_await host->open_stream(peer, "fail", deadline);
    EXPECT_TRUE(stream);
    if (!stream) co_return;
    auto answer = co_await (*stream)->read();
    EXPECT_FALSE(answer);
    if (!answer) *out = answer.error();
}

TEST_P(HostTest, a_stream_handlers_error_ends_the_other_sides_reading) {
    Host& a = world_.add(1);
    Host& b = world_.add(2);
    b.handle_stream("fail", fail_at_once);
    introduce(a, b);
    std::optional<Error> error;
    world_.run(read_failure(&a, b.id(), &error));
    ASSERT_TRUE(error);
    EXPECT_EQ(*error, Error(ErrorKind::denied, "not for you"));
}

Task<void> open_stream(Host* host, PeerId peer, std::string method, Duration* took) {
    const TimePoint begun = host->clock().now();
    auto stream = co_await host->open_stream(peer, std::move(method), begun + 10s);
    EXPECT_TRUE(stream) << (stream ? "" : stream.error().message());
    *took = host->clock().now() - begun;
    if (stream) (*stream)->reset();
}

// A round's first stream would cost its members a round trip that nothing else of it waits for.
TEST(Host, a_stream_of_a_method_that_came_after_the_connection_is_opened_without_asking) {
    TestWorld world(Kind::simulated);
    Host& a = world.add(1);
    Host& b = world.add(2);
    introduce(a, b);
    b.handle_call("echo", echo);
    ASSERT_TRUE(call(world, a, b.id(), "echo", to_bytes("hello")));
    world.world().run_for(1s);
    Duration took{};
    // Before it is told of: asked once.
    b.handle_stream("count", count_and_report);
    world.run(open_stream(&a, b.id(), "count", &took));
    EXPECT_GE(took, 2 * sim::LinkOptions{}.latency);
    world.run(open_stream(&a, b.id(), "count", &took));
    EXPECT_EQ(took, Duration(0));
    b.handle_stream("fail", fail_at_once);
    world.world().run_for(1s);
    world.run(open_stream(&a, b.id(), "fail", &took));
    EXPECT_EQ(took, Duration(0));
}

struct Progress {
    std::size_t written = 0;
    bool done = false;
    std::optional<Error> error;
};

Task<void> write_for_ever(Host* host, PeerId peer, Progress* progress) {
    const TimePoint deadline = host->clock().now() + 10s;
    auto stream = co_await host->open_stream(peer, "ignore", deadline);
    EXPECT_TRUE(stream);
    if (!stream) co_return;
    for (;;) {
        Bytes message(1 << 20);
        auto written = co_await (*stream)->write(std::move(message));
        if (!written) {
            progress->error = written.error();
            break;
        }
        progress->written += 1 << 20;
    }
    progress->done = true;
}

Task<void> never_reads(runtime::Clock* clock, std::unique_ptr<MessageStream> stream) {
    const auto held = std::move(stream);
    co_await clock->sleep_for(3600s);
}

TEST_P(HostTest, a_peer_that_never_reads_stops_the_writer_and_its_death_ends_it) {
    Host& a = world_.add(1);
    Host& b = world_.add(2);
    runtime::Clock* clock = &b.clock();
    b.handle_stream("ignore", [clock](std::unique_ptr<MessageStream> stream) {
        return never_reads(clock, std::move(stream));
    });
    b.handle_call("echo", echo);
    introduce(a, b);
    Progress progress;
    runtime::Scope scope(a.executor());
    scope.spawn("writer", write_for_ever(&a, b.id(), &progress));
    std::size_t last = 1;
    world_.run_until([&] { return progress.written == 0 && a.is_connected(b.id()); });
    for (int quiet = 0; quiet < 3;) {  // until nothing moves any more
        last = progress.written;
        const auto answer = call(world_, a, b.id(), "echo", to_bytes("still works"));
        EXPECT_TRUE(answer);
        quiet = progress.written == last ? quiet + 1 : 0;
    }
    EXPECT_LE(progress.written, 2u << 20);
    world_.stop(b);
    world_.run_until([&] { return progress.done; });
    ASSERT_TRUE(progress.error);
    EXPECT_EQ(progress.error->kind(), ErrorKind::peer_gone);
    world_.run(scope.stop());
}

// ------------------------------------------------------------------------- cancelling, the dead

struct Flag {
    bool begun = false;
    bool ended = false;
    ~Flag() = default;
};

struct EndMark {
    explicit EndMark(Flag* given) : flag(given) { flag->begun = true; }
    ~EndMark() { flag->ended = true; }
    Flag* flag;
};

Task<Result<Bytes>> sleep_long(runtime::Clock* clock, Flag* flag) {
    const EndMark mark(flag);
    co_await clock->sleep_for(3600s);
    co_return Bytes();
}

Task<void> short_call(Host* host, PeerId peer, std::optional<Error>* out) {
    const TimePoint deadline = host->clock().now() + 1s;
    auto answer = co_await host->call(peer, "slow", Bytes(), deadline);
    if (!answer) *out = answer.error();
}

TEST_P(HostTest, a_deadline_ends_the_call_and_cancels_the_handler) {
    Host& a = world_.add(1);
    Host& b = world_.add(2);
    Flag flag;
    runtime::Clock* clock = &b.clock();
    b.handle_call("slow", [clock, &flag](PeerId, Bytes) { return sleep_long(clock, &flag); });
    b.handle_call("echo", echo);
    introduce(a, b);
    // The deadline is the handler's alone, and not the connection's, too.
    ASSERT_TRUE(call(world_, a, b.id(), "echo", to_bytes("connect")));
    std::optional<Error> error;
    world_.run(short_call(&a, b.id(), &error));
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::timeout);
    world_.run_until([&] { return flag.ended; });
}

Task<void> long_call(Host* host, PeerId peer, std::optional<Error>* out) {
    const TimePoint deadline = host->clock().now() + 3000s;
    auto answer = co_await host->call(peer, "slow", Bytes(), deadline);
    if (!answer) *out = answer.error();
}

TEST_P(HostTest, the_end_of_a_peer_ends_its_calls_and_handlers_promptly) {
    Host& a = world_.add(1);
    Host& b = world_.add(2);
    Flag flag_a;
    Flag flag_b;
    runtime::Clock* clock = &b.clock();
    a.handle_call("slow", [clock, &flag_a](PeerId, Bytes) { return sleep_long(clock, &flag_a); });
    b.handle_call("slow", [clock, &flag_b](PeerId, Bytes) { return sleep_long(clock, &flag_b); });
    introduce(a, b);
    std::optional<Error> error_a;
    std::optional<Error> error_b;
    runtime::Scope scope(a.executor());
    scope.spawn("a calls", long_call(&a, b.id(), &error_a));
    world_.run_until([&] { return flag_b.begun; });
    scope.spawn("b calls", long_call(&b, a.id(), &error_b));
    world_.run_until([&] { return flag_a.begun; });
    const TimePoint before = a.clock().now();
    world_.stop(b);
    world_.run_until([&] { return error_a && flag_a.ended && flag_b.ended; });
    EXPECT_EQ(error_a->kind(), ErrorKind::peer_gone);
    EXPECT_LT(a.clock().now() - before, Duration(2s));
    EXPECT_FALSE(a.is_connected(b.id()));
    world_.run(scope.stop());
}

TEST_P(HostTest, a_peer_that_comes_back_is_reached_again) {
    Host& a = world_.add(1);
    auto options = world_.options(2);
    Host& b = world_.add(options);
    b.handle_call("echo", echo);
    introduce(a, b);
    ASSERT_TRUE(call(world_, a, b.id(), "echo", {}));
    options.listen = b.addresses();
    world_.stop(b);
    world_.run_until([&] { return !a.is_connected(options.identity.id()); });
    ASSERT_FALSE(call(world_, a, options.identity.id(), "echo", {}));
    Host& again = world_.add(options);
    again.handle_call("echo", echo);
    world_.run_until([&] {
        const auto answer = Result<Bytes>(Bytes());
        return answer.has_value();
    });
    Result<Bytes> answer = Error(ErrorKind::cancelled, "");
    for (int tries = 0; tries < 10 && !answer; ++tries) {
        introduce(a, again);
        answer = call(world_, a, again.id(), "echo", to_bytes("again"));
        const TimePoint pause = a.clock().now() + 300ms;
        if (!answer) world_.run_until([&] { return a.clock().now() >= pause; });
    }
    EXPECT_TRUE(answer);
}

TEST_P(HostTest, round_trips_are_measured) {
    Host& a = world_.add(1);
    Host& b = world_.add(2);
    b.handle_call("echo", echo);
    introduce(a, b);
    ASSERT_TRUE(call(world_, a, b.id(), "echo", {}));
    world_.run_until([&] { return a.round_trip(b.id()).has_value(); });
    if (world_.is_simulated()) {
        EXPECT_GE(*a.round_trip(b.id()), Duration(40ms));
        EXPECT_LE(*a.round_trip(b.id()), Duration(60ms));
    }
}

TEST_P(HostTest, addresses_of_peers_come_with_identify) {
    Host& a = world_.add(1);
    Host& b = world_.add(2);
    a.handle_call("echo", echo);
    b.handle_call("echo", echo);
    introduce(a, b);
    ASSERT_TRUE(call(world_, a, b.id(), "echo", {}));
    world_.run_until([&] { return b.addresses_of(a.id()) == a.addresses(); });
}

// -------------------------------------------------------------------------------- hostile bytes

Task<void> speak(runtime::Network* network,
                 runtime::SocketAddress address,
                 Bytes bytes,
                 runtime::Clock* clock,
                 Duration* until_closed) {
    const TimePoint begun = clock->now();
    auto connection = co_await network->connect(address, begun + 10s);
    EXPECT_TRUE(connection);
    if (!connection) co_return;
    auto written = co_await (*connection)->write(bytes);
    (void)written;
    Bytes buffer(4096);
    for (;;) {
        auto count = co_await (*connection)->read_some(buffer);
        if (!count || *count == 0) break;
    }
    *until_closed = clock->now() - begun;
}

runtime::SocketAddress socket_of(Host& host) {
    const std::string text = host.addresses().at(0);  // /ip4/HOST/tcp/PORT
    const std::size_t port = text.rfind('/');
    const std::size_t start = std::string("/ip4/").size();
    return {.host = text.substr(start, text.find('/', start) - start),
            .port = static_cast<std::uint16_t>(std::stoi(text.substr(port + 1)))};
}

TEST_P(HostTest, garbage_is_hung_up_on_and_harms_nobody) {
    Host& b = world_.add(2);
    b.handle_call("echo", echo);
    Host& a = world_.add(1);
    Bytes almost;
    wire::put_multistream_line(almost, wire::multistream_header);
    wire::put_multistream_line(almost, "/tls/1.0.0");
    base::append(almost, Random(3).bytes(500));
    const std::vector<Bytes> inputs = {
        Random(1).bytes(3000),
        to_bytes("GET / HTTP/1.1\r\nHost: " + std::string(100, 'x') + "\r\n\r\n"),
        Bytes(2000, 0xff),
        almost};
    for (const Bytes& input : inputs) {
        Duration until_closed{0};
        world_.run(speak(&world_.network(), socket_of(b), input, &a.clock(), &until_closed));
        EXPECT_LT(until_closed, Duration(5s));
    }
    introduce(a, b);
    EXPECT_TRUE(call(world_, a, b.id(), "echo", {}));
}

TEST(HostInTheSimulator, who_says_nothing_is_hung_up_on_after_the_handshakes_deadline) {
    TestWorld world(Kind::simulated);
    Host& b = world.add(2);
    Host& a = world.add(1);
    Duration until_closed{0};
    Bytes slow = wire::multistream_line(wire::multistream_header);
    world.run(speak(&world.network(), socket_of(b), slow, &a.clock(), &until_closed));
    EXPECT_GE(until_closed, transport::upgrade_max);
    EXPECT_LE(until_closed, transport::upgrade_max + 1s);
}

TEST(HostInTheSimulator, a_peer_that_falls_silent_is_given_up) {
    TestWorld world(Kind::simulated);
    Host& a = world.add(1);
    Host& b = world.add(2);
    sim::SimNode& machine = world.last_node();
    b.handle_call("echo", echo);
    introduce(a, b);
    ASSERT_TRUE(call(world, a, b.id(), "echo", {}));
    machine.freeze();
    const TimePoint before = a.clock().now();
    world.run_until([&] { return !a.is_connected(b.id()); }, 120s);
    EXPECT_LE(a.clock().now() - before,
              transport::keep_alive_interval + transport::keep_alive_answer_max + 1s);
    machine.thaw();
}

TEST(HostInTheSimulator, a_peer_that_is_slow_to_answer_a_call_is_not_given_up) {
    TestWorld world(Kind::simulated);
    Host& a = world.add(1);
    Host& b = world.add(2);
    Flag flag;
    runtime::Clock* clock = &b.clock();
    b.handle_call("slow", [clock, &flag](PeerId, Bytes) { return sleep_long(clock, &flag); });
    introduce(a, b);
    std::optional<Error> error;
    world.run(short_call(&a, b.id(), &error));
    ASSERT_TRUE(error);
    world.world().run_for(transport::keep_alive_answer_max * 2);
    EXPECT_TRUE(a.is_connected(b.id()));
}

TEST(HostInTheSimulator, a_call_takes_one_round_trip_once_connected) {
    TestWorld world(Kind::simulated);
    Host& a = world.add(1);
    Host& b = world.add(2);
    b.handle_call("echo", echo);
    introduce(a, b);
    ASSERT_TRUE(call(world, a, b.id(), "echo", {}));
    const TimePoint before = a.clock().now();
    ASSERT_TRUE(call(world, a, b.id(), "echo", to_bytes("quick")));
    const Duration taken = a.clock().now() - before;
    EXPECT_GE(taken, Duration(40ms));
    EXPECT_LE(taken, Duration(45ms));
}

TEST(HostOnSockets, a_host_of_both_families_is_reached_by_either_and_its_ipv6_peers_by_id) {
    TestWorld world(Kind::loopback);
    if (!world.network().listen({.host = "::1", .port = 0}))
        GTEST_SKIP() << "this machine has no IPv6 loopback";
    HostOptions only6 = world.options(1);
    only6.listen = {"/ip6/::1/tcp/0"};
    HostOptions of_both = world.options(2);
    of_both.listen = {"/ip6/::1/tcp/0", "/ip4/127.0.0.1/tcp/0"};
    Host& six = world.add(only6);
    Host& both = world.add(of_both);
    Host& four = world.add(3);
    both.handle_call("echo", echo);
    for (Host* caller : {&six, &four}) {
        // Addresses of a family that leads nowhere do no harm.
        caller->add_addresses(both.id(), {"/ip6/::1/tcp/1", "/ip4/127.0.0.1/tcp/1"});
        introduce(*caller, both);
        const auto answer = call(world, *caller, both.id(), "echo", to_bytes("hello"));
        ASSERT_TRUE(answer) << answer.error().message();
    }
    EXPECT_EQ(six.addresses().at(0).rfind("/ip6/::1/tcp/", 0), 0u) << six.addresses().at(0);
    introduce(four, six);
    six.handle_call("echo", echo);
    EXPECT_TRUE(call(world, four, six.id(), "echo", to_bytes("over IPv6")));
}

TEST(HostOnSockets, a_port_in_use_is_explained) {
    TestWorld world(Kind::loopback);
    Host& a = world.add(1);
    auto options = world.options(2);
    options.listen = a.addresses();
    const auto refused = make_host(options);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind(), ErrorKind::local_fault);
    EXPECT_NE(refused.error().message().find("in use"), std::string::npos);
}

}  // namespace
}  // namespace dedloc::p2p
