// When a router is asked for a port, what it is believed, and what becomes of the host's
// reachability; in virtual time, with a router that answers as it is told.
#include "dedloc/p2p/port_mappings.h"

#include <deque>
#include <gtest/gtest.h>
#include <list>
#include <utility>

#include "dedloc/p2p/host_testing.h"
#include "dedloc/p2p/make_host.h"
#include "dedloc/runtime/runtime_testing.h"
#include "dedloc/runtime/scope.h"
#include "dedloc/sim/world.h"

namespace dedloc::p2p {
namespace {

const std::function<bool(std::string_view)> really_public = is_public_address;

TEST(ListenerToMap, is_a_private_one_of_a_machine_without_a_public_address) {
    const auto chosen = listener_to_map(
        {tcp("127.0.0.1", 4001), tcp("192.168.1.2", 4002), tcp("10.0.0.1", 4003)}, really_public);
    ASSERT_TRUE(chosen);
    EXPECT_EQ(chosen->text(), "192.168.1.2:4002");
    EXPECT_FALSE(listener_to_map({}, really_public));
    EXPECT_FALSE(listener_to_map({tcp("127.0.0.1", 4001)}, really_public));
    EXPECT_FALSE(
        listener_to_map({tcp("192.168.1.2", 4001), tcp("203.0.113.9", 4001)}, really_public));
    // A router's port is one of IPv4; who is public by IPv6 only still has use for it.
    EXPECT_TRUE(listener_to_map({tcp("192.168.1.2", 4001), tcp("2a00::1", 4001)}, really_public));
}

// Answers after a while: with what lies in `answers`, and with the last of these ever after.
class FakeRouter final : public runtime::PortMapper {
  public:
    explicit FakeRouter(runtime::Clock& clock) : clock_(clock) {}

    Task<Result<runtime::PortMapping>> map(runtime::PortWish wish, TimePoint deadline) override {
        ++asked;
        asked_at.push_back(clock_.now());
        last_wish = wish;
        const TimePoint ready = std::min(clock_.now() + delay, deadline);
        co_await clock_.sleep_until(ready);
        if (ready == deadline) co_return Error(ErrorKind::timeout, "the router took too long");
        auto answer = answers.front();
        if (answers.size() > 1) answers.pop_front();
        if (answer) {
            answer->internal_port = wish.internal_port;
            ++open;
            if (on_open) on_open(true);
        }
        co_return answer;
    }
    Task<Result<void>> unmap(runtime::PortMapping mapping, TimePoint) override {
        removed.push_back(mapping.external.text());
        co_await clock_.sleep_for(1ms);
        if (on_open) on_open(false);
        co_return Ok();
    }

    std::deque<Result<runtime::PortMapping>> answers;
    Duration delay = 50ms;
    std::function<void(bool)> on_open;
    int asked = 0;
    int open = 0;
    std::vector<TimePoint> asked_at;
    std::vector<std::string> removed;
    runtime::PortWish last_wish;

  private:
    runtime::Clock& clock_;
};

Result<runtime::PortMapping> gives(const std::string& host,
                                   std::uint16_t port,
                                   Duration lease = 20min) {
    runtime::PortMapping mapping;
    mapping.external = {.host = host, .port = port};
    mapping.lease = lease;
    return mapping;
}

Result<runtime::PortMapping> nobody() {
    return Error(ErrorKind::not_found, "no router answered UPnP or NAT-PMP");
}

class PortMappingsTest : public ::testing::Test {
  protected:
    void start() {
        mappings_ = std::make_unique<PortMappings>(
            PortMappings::Surroundings{.executor = world_.executor(),
                                       .clock = node_.clock(),
                                       .mapper = &router_,
                                       .interfaces = [this] { return interfaces_; },
                                       .is_public = really_public,
                                       .on_change = [this] { ++changes_; }});
        scope_.spawn("mappings", mappings_->run());
    }
    void TearDown() override { world_.run_task(scope_.stop()); }
    std::string address() const {
        const auto address = mappings_->address();
        return address ? address->text() : std::string();
    }
    bool asks_before(Duration time) {
        const int before = router_.asked;
        return world_.run_until([&] { return router_.asked > before; }, time);
    }

    sim::World world_{5};
    sim::SimNode& node_ = world_.add_node({});
    FakeRouter router_{node_.clock()};
    std::vector<wire::Multiaddr> interfaces_{tcp("192.168.1.2", 4001)};
    runtime::Scope scope_{world_.executor()};
    std::unique_ptr<PortMappings> mappings_;
    int changes_ = 0;
};

TEST_F(PortMappingsTest, a_port_is_opened_renewed_at_half_its_lease_and_given_back) {
    router_.answers = {gives("203.0.113.2", 4001)};
    start();
    world_.run_for(1s);
    EXPECT_EQ(address(), "/ip4/203.0.113.2/tcp/4001");
    EXPECT_EQ(mappings_->sentence(), "the router opened port 4001 for this peer by NAT-PMP");
    EXPECT_EQ(router_.last_wish.lease, mapping_lease_wish);
    EXPECT_EQ(changes_, 1);

    EXPECT_FALSE(asks_before(9min));
    EXPECT_TRUE(asks_before(2min));
    EXPECT_EQ(router_.asked_at[1] - router_.asked_at[0], 10min);
    EXPECT_EQ(changes_, 1) << "the same address is no news";

    world_.run_task(mappings_->close());
    EXPECT_EQ(router_.removed, std::vector<std::string>{"203.0.113.2:4001"});
    EXPECT_EQ(address(), "");
    EXPECT_FALSE(asks_before(1h)) << "closed is closed";
}

TEST_F(PortMappingsTest, a_silent_router_is_asked_again_less_and_less_often) {
    router_.answers = {nobody()};
    router_.delay = 2s;
    start();
    world_.run_for(3h);
    EXPECT_EQ(mappings_->sentence(), "no router answered UPnP or NAT-PMP");
    EXPECT_EQ(changes_, 0);
    ASSERT_GE(router_.asked_at.size(), 8u);
    for (std::size_t i = 1; i < router_.asked_at.size(); ++i) {
        const Duration pause = router_.asked_at[i] - router_.asked_at[i - 1];
        EXPECT_GE(pause, mapping_retry_min);
        EXPECT_LE(pause, mapping_retry_max + router_.delay);
    }
    EXPECT_LE(router_.asked, 25);
    router_.answers = {gives("203.0.113.2", 4001)};
    world_.run_for(16min);
    EXPECT_EQ(address(), "/ip4/203.0.113.2/tcp/4001");
}

TEST_F(PortMappingsTest, what_a_router_passes_on_is_kept_while_its_lease_lasts) {
    router_.answers = {gives("203.0.113.2", 4001), nobody()};
    start();
    world_.run_for(19min);
    EXPECT_GT(router_.asked, 3);
    EXPECT_EQ(address(), "/ip4/203.0.113.2/tcp/4001");
    world_.run_for(2min);
    EXPECT_EQ(address(), "");
    EXPECT_EQ(changes_, 2);
    EXPECT_EQ(mappings_->sentence(), "no router answered UPnP or NAT-PMP");
    router_.answers = {gives("203.0.113.7", 4009)};
    world_.run_for(16min);
    EXPECT_EQ(address(), "/ip4/203.0.113.7/tcp/4009") << "it has started again, at another address";
}

TEST_F(PortMappingsTest, a_router_behind_another_one_is_told_apart_and_its_port_is_not_announced) {
    for (const char* inner : {"10.64.0.9", "100.64.0.9", "192.168.0.9", "0.0.0.0"}) {
        router_.answers = {gives(inner, 4001)};
        start();
        world_.run_for(1s);
        EXPECT_EQ(address(), "") << inner;
        EXPECT_NE(mappings_->sentence().find("double NAT"), std::string::npos) << inner;
        EXPECT_EQ(router_.removed.back(), std::string(inner) + ":4001");
        world_.run_task(mappings_->close());
        world_.run_for(1s);
    }
    EXPECT_EQ(changes_, 0);
}

TEST_F(PortMappingsTest, leases_that_make_no_sense_neither_stop_nor_flood_the_renewal) {
    router_.answers = {gives("203.0.113.2", 4001, Duration(0))};  // without an end
    start();
    EXPECT_TRUE(asks_before(1s));
    EXPECT_TRUE(asks_before(11min));
    router_.answers = {gives("203.0.113.2", 4001, 1s)};
    EXPECT_TRUE(asks_before(11min));
    const int before = router_.asked;
    world_.run_for(10min);
    EXPECT_LE(router_.asked - before, 21);
    EXPECT_EQ(address(), "/ip4/203.0.113.2/tcp/4001");
}

TEST_F(PortMappingsTest, a_machine_that_moves_to_another_network_asks_the_router_there) {
    router_.answers = {gives("203.0.113.2", 4001), gives("203.0.113.77", 4001)};
    start();
    world_.run_for(1s);
    interfaces_ = {tcp("192.168.7.9", 4001)};
    world_.run_for(mapping_look_pause_max + 1s);
    EXPECT_EQ(address(), "/ip4/203.0.113.77/tcp/4001");
    interfaces_ = {tcp("203.0.113.80", 4001)};
    world_.run_for(mapping_look_pause_max + 1s);
    EXPECT_EQ(address(), "") << "a public machine needs no port of a router";
    EXPECT_EQ(router_.removed.size(), 2u);
}

// A tunnel stays, and comes first.
TEST_F(PortMappingsTest, a_move_is_noticed_by_whichever_address_tells) {
    interfaces_ = {tcp("172.17.0.1", 4001), tcp("192.168.1.2", 4001)};
    router_.answers = {gives("203.0.113.2", 4001), gives("203.0.113.77", 4001), nobody()};
    start();
    world_.run_for(1s);
    EXPECT_EQ(address(), "/ip4/203.0.113.2/tcp/4001");
    interfaces_[1] = tcp("192.168.7.9", 4001);
    world_.run_for(mapping_look_pause_max + 1s);
    EXPECT_EQ(address(), "/ip4/203.0.113.77/tcp/4001");
    interfaces_[1] = tcp("192.168.8.9", 4001);
    world_.run_for(mapping_look_pause_max + 1s);
    EXPECT_EQ(address(), "") << "what another router had opened leads nowhere from here";
}

TEST_F(PortMappingsTest, a_short_loss_of_the_network_loses_no_open_port) {
    router_.answers = {gives("203.0.113.2", 4001), nobody()};
    start();
    world_.run_for(1s);
    const auto before = std::exchange(interfaces_, {});
    EXPECT_FALSE(asks_before(mapping_look_pause_max + 1s));
    interfaces_ = before;
    EXPECT_TRUE(asks_before(mapping_look_pause_max + 1s)) << "perhaps the router was off";
    world_.run_for(1s);
    EXPECT_EQ(address(), "/ip4/203.0.113.2/tcp/4001");
    EXPECT_EQ(changes_, 1);

    interfaces_ = {};
    world_.run_for(mapping_look_pause_max + 1s);
    interfaces_ = {tcp("192.168.7.9", 4001)};
    world_.run_for(mapping_look_pause_max + 1s);
    EXPECT_EQ(address(), "") << "it came back in another network";
}

TEST_F(PortMappingsTest, a_new_tunnel_on_this_machine_loses_no_open_port) {
    router_.answers = {gives("203.0.113.2", 4001)};
    start();
    world_.run_for(1s);
    interfaces_.push_back(tcp("192.168.122.1", 4001));
    EXPECT_TRUE(asks_before(mapping_look_pause_max + 1s));
    world_.run_for(1s);
    EXPECT_EQ(address(), "/ip4/203.0.113.2/tcp/4001");
    EXPECT_EQ(changes_, 1);
    EXPECT_TRUE(router_.removed.empty());
}

TEST_F(PortMappingsTest, a_new_privacy_address_is_no_reason_to_ask_the_router) {
    interfaces_.push_back(tcp("2a00::1", 4001));
    router_.answers = {gives("203.0.113.2", 4001)};
    start();
    world_.run_for(1s);
    interfaces_[1] = tcp("2a00::2", 4001);
    EXPECT_FALSE(asks_before(mapping_look_pause_max + 1s));
    interfaces_[1] = tcp("2a00:0:0:1::2", 4001);
    EXPECT_TRUE(asks_before(mapping_look_pause_max + 1s)) << "that is another network";
}

TEST_F(PortMappingsTest, doubt_makes_it_ask_again_but_not_again_and_again) {
    router_.answers = {gives("203.0.113.2", 4001)};
    start();
    world_.run_for(5min);
    mappings_->doubt();
    EXPECT_TRUE(asks_before(1s));
    world_.run_for(1s);
    EXPECT_EQ(changes_, 2) << "open again is news, though the address is the same";
    mappings_->doubt();
    EXPECT_FALSE(asks_before(30s));
}

TEST_F(PortMappingsTest, a_router_that_never_answers_does_not_hold_up_the_end) {
    router_.answers = {nobody()};
    router_.delay = 1h;
    start();
    world_.run_for(2s);
    const TimePoint before = node_.clock().now();
    world_.run_task(mappings_->close());
    EXPECT_LE(node_.clock().now() - before, mapping_close_wait_max);
    world_.run_task(scope_.stop());
    EXPECT_LE(node_.clock().now() - before, mapping_close_wait_max);
}

TEST_F(PortMappingsTest, a_port_that_is_opened_while_the_host_ends_is_given_back) {
    router_.answers = {gives("203.0.113.2", 4001)};
    router_.delay = 300ms;
    start();
    world_.run_for(200ms);
    world_.run_task(mappings_->close());
    EXPECT_EQ(router_.removed, std::vector<std::string>{"203.0.113.2:4001"});
}

// -------------------------------------------------------------------------------- with a host

// `all`: "0.0.0.0" or "::".
class OnAllInterfaces final : public runtime::Listener {
  public:
    OnAllInterfaces(std::unique_ptr<runtime::Listener> real, std::string all)
        : real_(std::move(real)), all_(std::move(all)) {}
    Task<Result<std::unique_ptr<runtime::Connection>>> accept() override { return real_->accept(); }
    runtime::SocketAddress local() const override { return {all_, real_->local().port}; }
    void close() override { real_->close(); }

  private:
    std::unique_ptr<runtime::Listener> real_;
    std::string all_;
};

// A machine's network as it is behind a router: it knows a private address only.
class Behind final : public runtime::NetworkLike {
  public:
    using NetworkLike::NetworkLike;
    Result<std::unique_ptr<runtime::Listener>> listen(
        const runtime::SocketAddress& address) override {
        DEDLOC_TRY(auto real, model_.listen(address));
        std::unique_ptr<runtime::Listener> all =
            std::make_unique<OnAllInterfaces>(std::move(real), address.host);
        return all;
    }
    Task<Result<std::unique_ptr<runtime::Connection>>> connect_from(std::uint16_t local_port,
                                                                    runtime::SocketAddress address,
                                                                    TimePoint deadline) override {
        dialled_from.push_back(local_port);
        return model_.connect(std::move(address), deadline);
    }
    std::vector<std::string> interface_addresses() const override {
        auto all = addresses;
        all.insert(all.end(), bridges.begin(), bridges.end());
        if (all.empty()) all.push_back("127.0.0.1");
        return all;
    }
    std::vector<std::string> outward_addresses() const override { return addresses; }

    std::vector<std::string> addresses{"192.168.1.2"};
    std::vector<std::string> bridges;
    std::vector<std::uint16_t> dialled_from;  // of ports that a listener has, too
};

// A connection of a machine behind a router, as the other end sees it.
class SeenAt final : public runtime::Connection {
  public:
    SeenAt(std::unique_ptr<runtime::Connection> real, std::string host)
        : real_(std::move(real)), host_(std::move(host)) {}
    Task<Result<std::size_t>> read_some(std::span<std::uint8_t> into) override {
        return real_->read_some(into);
    }
    Task<Result<void>> write(ByteView bytes) override { return real_->write(bytes); }
    void close() override { real_->close(); }
    runtime::SocketAddress local() const override { return real_->local(); }
    runtime::SocketAddress remote() const override { return {host_, real_->remote().port}; }

  private:
    std::unique_ptr<runtime::Connection> real_;
    std::string host_;
};

// The network of somebody who sees a machine where its router is, and finds it there.
class Outside final : public runtime::NetworkLike {
  public:
    Outside(runtime::Network& model, std::string inside)
        : NetworkLike(model), inside_(std::move(inside)) {}
    Task<Result<std::unique_ptr<runtime::Connection>>> connect(runtime::SocketAddress address,
                                                               TimePoint deadline) override {
        if (address.host == router) address.host = inside_;
        return model_.connect(std::move(address), deadline);
    }
    Result<std::unique_ptr<runtime::Listener>> listen(
        const runtime::SocketAddress& address) override {
        DEDLOC_TRY(auto real, model_.listen(address));
        std::unique_ptr<runtime::Listener> listener =
            std::make_unique<Translating>(std::move(real), *this);
        return listener;
    }

    std::string router;  // its address; empty: the machine is seen where it is

  private:
    class Translating final : public runtime::Listener {
      public:
        Translating(std::unique_ptr<runtime::Listener> real, const Outside& outside)
            : real_(std::move(real)), outside_(outside) {}
        Task<Result<std::unique_ptr<runtime::Connection>>> accept() override {
            auto accepted = co_await real_->accept();
            const bool is_behind = accepted && !outside_.router.empty() &&
                                   (*accepted)->remote().host == outside_.inside_;
            if (!is_behind) co_return accepted;
            std::unique_ptr<runtime::Connection> seen =
                std::make_unique<SeenAt>(*std::move(accepted), outside_.router);
            co_return seen;
        }
        runtime::SocketAddress local() const override { return real_->local(); }
        void close() override { real_->close(); }

      private:
        std::unique_ptr<runtime::Listener> real_;
        const Outside& outside_;
    };

    std::string inside_;
};

// `a` is public; `b` is behind a router, which lets strangers in while it has a port open.
class HostBehindRouterTest : public ::testing::Test {
  protected:
    HostBehindRouterTest() {
        node_.options().dialable = false;
        router_.on_open = [this](bool is_open) {
            node_.options().dialable = is_open && lets_strangers_in_;
        };
        router_.answers = {gives(node_.ip(), 4001)};
    }
    HostOptions options(sim::SimNode& node, runtime::Network& network, std::uint8_t seed) {
        HostOptions options{.executor = world_.executor(),
                            .clock = node.clock(),
                            .network = network,
                            .random = Random(seed),
                            .identity = security::Identity::from_seed(Bytes(32, seed)).value(),
                            .listen = {"/ip4/0.0.0.0/tcp/4001"},
                            .announce = {}};
        options.nat.relay_for = RelayFor::anyone;
        options.nat.is_public = [](std::string_view ip) {
            return !ip.starts_with("192.168.") && !ip.starts_with("127.");
        };
        return options;
    }
    void start(runtime::PortMapper* router) {
        HostOptions of_a = options(other_, outside_, 1);
        of_a.nat.ask_reachability = true;
        a_ = make_host(std::move(of_a)).value();
        HostOptions of_b = options(node_, behind_, 2);
        of_b.port_mapper = router;
        of_b.listen = listen_of_b_;
        b_ = make_host(std::move(of_b)).value();
        world_.run_task(dial(b_.get(), a_->addresses().at(0)));
        began_ = node_.clock().now();
    }
    void TearDown() override {
        world_.run_task(b_->stop());
        world_.run_task(a_->stop());
    }
    static Task<void> dial(Host* from, std::string address) {
        const TimePoint deadline = from->clock().now() + 20s;
        auto peer = co_await from->dial(address, deadline);
        EXPECT_TRUE(peer);
    }
    NatReport report() const { return nat_of(*b_)->nat_report(); }
    std::string outside() const { return "/ip4/" + node_.ip() + "/tcp/4001"; }
    bool announces() const { return std::ranges::count(b_->addresses(), outside()) == 1; }
    bool becomes(Reachability wanted, Duration within) {
        return world_.run_until([&] { return report().reachability == wanted; }, within);
    }
    // Every connection through it is lost with that.
    void router_moves_to(const std::string& ip) {
        outside_.router = ip;
        b_->disconnect(a_->id());
        world_.run_task(dial(b_.get(), a_->addresses().at(0)));
    }
    bool announces(const std::string& ip) const {
        return std::ranges::count(b_->addresses(), "/ip4/" + ip + "/tcp/4001") == 1;
    }
    Duration since_start() { return node_.clock().now() - began_; }

    sim::World world_{6};
    sim::SimNode& other_ = world_.add_node({});
    sim::SimNode& node_ = world_.add_node({});
    Behind behind_{node_.network()};
    Outside outside_{other_.network(), node_.ip()};
    std::vector<std::string> listen_of_b_{"/ip4/0.0.0.0/tcp/4001"};
    FakeRouter router_{node_.clock()};
    bool lets_strangers_in_ = true;
    TimePoint began_;
    std::unique_ptr<Host> a_;
    std::unique_ptr<Host> b_;
};

TEST_F(HostBehindRouterTest, an_open_port_is_announced_at_once_and_public_when_somebody_came) {
    start(&router_);
    ASSERT_TRUE(world_.run_until([&] { return !report().mapped.empty(); }, 1s));
    EXPECT_EQ(report().mapped, outside());
    EXPECT_TRUE(announces());
    EXPECT_NE(report().reachability, Reachability::publicly) << "nobody has come through yet";
    ASSERT_TRUE(becomes(Reachability::publicly, 5s));
    EXPECT_EQ(report().public_now, std::vector<std::string>{outside()});
    EXPECT_EQ(report().router, "the router opened port 4001 for this peer by NAT-PMP");
    world_.run_for(5s);
    EXPECT_TRUE(report().relays.empty()) << "who is dialled needs no relay";
    EXPECT_TRUE(report().serves_as_relay);
}

TEST_F(HostBehindRouterTest, a_port_that_is_opened_late_makes_it_public_without_a_wait) {
    router_.answers = {nobody(), nobody(), gives(node_.ip(), 4001)};  // after 30 s
    start(&router_);
    ASSERT_TRUE(becomes(Reachability::privately, 20s));
    ASSERT_TRUE(world_.run_until([&] { return report().relays.size() == 1; }, 5s));
    EXPECT_FALSE(announces());
    ASSERT_TRUE(world_.run_until([&] { return announces(); }, 20s));
    ASSERT_TRUE(becomes(Reachability::publicly, 3s));
    EXPECT_TRUE(world_.run_until([&] { return report().relays.empty(); }, 1s));
}

TEST_F(HostBehindRouterTest, a_port_that_lets_nobody_in_is_withdrawn) {
    lets_strangers_in_ = false;
    start(&router_);
    ASSERT_TRUE(world_.run_until([&] { return announces(); }, 1s));
    ASSERT_TRUE(becomes(Reachability::privately, 20s));
    EXPECT_FALSE(announces());
    EXPECT_EQ(report().mapped, outside()) << "the router still says so";
    EXPECT_EQ(report().relays.size(), 1u);
    const int asked = router_.asked;
    world_.run_for(30min);
    EXPECT_FALSE(announces());
    EXPECT_LE(router_.asked - asked, 15) << "that nobody comes through is no reason to hurry";
}

TEST_F(HostBehindRouterTest, a_silent_router_makes_nothing_slower) {
    struct Times {
        Duration relay{0};
        Duration known{0};
    };
    const auto measure = [this] {
        Times times;
        EXPECT_TRUE(world_.run_until([&] { return report().relays.size() == 1; }, 20s));
        times.relay = since_start();
        EXPECT_TRUE(becomes(Reachability::privately, 30s));
        times.known = since_start();
        return times;
    };
    router_.answers = {nobody()};
    router_.delay = 4s;
    start(&router_);
    const Times with = measure();
    TearDown();
    start(nullptr);
    const Times without = measure();
    EXPECT_NEAR(to_seconds(with.relay), to_seconds(without.relay), 0.05);
    EXPECT_NEAR(to_seconds(with.known), to_seconds(without.known), 0.05);
    EXPECT_EQ(report().router, "") << "without a router to ask, nothing is said of it";
}

TEST_F(HostBehindRouterTest, a_router_that_has_forgotten_the_port_is_asked_again) {
    start(&router_);
    ASSERT_TRUE(becomes(Reachability::publicly, 5s));
    world_.run_for(2min);
    node_.options().dialable = false;  // it has started anew
    const int asked = router_.asked;
    // The next look of AutoNAT finds it, long before half the lease would.
    EXPECT_TRUE(world_.run_until([&] { return router_.asked > asked; }, 16min));
    EXPECT_TRUE(world_.run_until([&] { return node_.options().dialable; }, 1s));
    world_.run_for(1min);
    EXPECT_EQ(report().reachability, Reachability::publicly);
}

TEST_F(HostBehindRouterTest, a_router_that_is_gone_leaves_the_host_to_its_relays) {
    router_.answers = {gives(node_.ip(), 4001), nobody()};
    start(&router_);
    ASSERT_TRUE(becomes(Reachability::publicly, 5s));
    // As members of a run do.
    a_->protect(b_->id(), true);
    b_->protect(a_->id(), true);
    node_.options().dialable = false;
    EXPECT_TRUE(world_.run_until([&] { return !announces(); }, 21min));
    EXPECT_TRUE(world_.run_until([&] { return report().relays.size() == 1; }, 30s));
    EXPECT_EQ(report().router, "no router answered UPnP or NAT-PMP");
}

TEST_F(HostBehindRouterTest, what_was_found_out_in_one_network_does_not_count_in_the_next) {
    behind_.addresses = {"192.168.0.1", "192.168.1.2"};  // the first one is a tunnel
    router_.answers = {gives(node_.ip(), 4001), nobody()};
    start(&router_);
    ASSERT_TRUE(becomes(Reachability::publicly, 5s));
    world_.run_for(2min);
    node_.options().dialable = false;  // the router there opens nothing
    behind_.addresses[1] = "192.168.7.9";
    EXPECT_TRUE(becomes(Reachability::privately, mapping_look_pause_max + 20s));
    EXPECT_FALSE(announces());
    EXPECT_TRUE(world_.run_until([&] { return report().relays.size() == 1; }, 5s));
    // And back.
    node_.options().dialable = true;
    behind_.addresses[1] = "192.168.1.2";
    router_.answers = {gives(node_.ip(), 4001)};
    EXPECT_TRUE(becomes(Reachability::publicly, mapping_look_pause_max + 20s));
}

TEST_F(HostBehindRouterTest, what_others_saw_in_one_network_is_forgotten_in_the_next) {
    router_.answers = {nobody()};
    start(&router_);
    const auto was_seen = [&] { return !report().observed.empty(); };
    ASSERT_TRUE(world_.run_until(was_seen, 5s));
    behind_.addresses = {"192.168.7.9"};
    world_.run_for(mapping_look_pause_max + 1s);
    EXPECT_TRUE(was_seen()) << "over a connection that lives on";
    world_.run_task(a_->stop());
    EXPECT_TRUE(world_.run_until([&] { return !was_seen(); }, 60s));
}

TEST_F(HostBehindRouterTest, bridges_and_a_short_loss_of_the_network_are_no_move) {
    router_.answers = {gives(node_.ip(), 4001), nobody()};
    start(&router_);
    ASSERT_TRUE(becomes(Reachability::publicly, 5s));
    const auto moves = [this] {
        return becomes(Reachability::unknown, mapping_look_pause_max + 1s);
    };
    const int asked = router_.asked;
    behind_.bridges = {"192.168.122.1"};
    EXPECT_FALSE(moves());
    EXPECT_EQ(router_.asked, asked);
    const auto before = std::exchange(behind_.addresses, {});
    EXPECT_FALSE(moves());
    behind_.bridges.clear();
    EXPECT_FALSE(moves()) << "nothing is left but loopback";
    behind_.addresses = before;
    EXPECT_FALSE(moves());
    EXPECT_TRUE(announces()) << "the port that is open stays so";
}

TEST_F(HostBehindRouterTest, who_is_global_by_ipv6_alone_still_learns_how_ipv4_is_mapped) {
    behind_.addresses = {"192.168.1.2", "2001:db8::2"};
    listen_of_b_.emplace_back("/ip6/::/tcp/4002");
    start(nullptr);
    ASSERT_FALSE(behind_.dialled_from.empty());
    EXPECT_EQ(behind_.dialled_from.front(), 4001);
}

TEST_F(HostBehindRouterTest, a_new_privacy_address_is_no_move) {
    behind_.addresses = {"192.168.1.2", "2001:db8::a1"};
    listen_of_b_.emplace_back("/ip6/::/tcp/4002");
    start(&router_);
    ASSERT_TRUE(becomes(Reachability::publicly, 5s));
    const auto moves = [this] {
        return becomes(Reachability::unknown, mapping_look_pause_max + 1s);
    };
    behind_.addresses[1] = "2001:db8::b2";
    EXPECT_FALSE(moves());
    behind_.addresses[1] = "2001:db8:0:7::b2";
    EXPECT_TRUE(moves());
}

TEST_F(HostBehindRouterTest, a_new_address_of_the_router_is_told_as_soon_as_somebody_sees_it) {
    outside_.router = "203.0.113.2";
    node_.options().dialable = true;  // somebody has passed the port on by hand
    start(nullptr);
    ASSERT_TRUE(becomes(Reachability::publicly, 5s));
    EXPECT_TRUE(announces("203.0.113.2"));
    world_.run_for(2min);
    router_moves_to("203.0.113.9");
    EXPECT_TRUE(world_.run_until([&] { return announces("203.0.113.9"); }, 30s));
    EXPECT_FALSE(announces("203.0.113.2")) << "nobody sees it there any more";
    EXPECT_EQ(report().reachability, Reachability::publicly);
}

TEST_F(HostBehindRouterTest, a_router_that_is_seen_at_a_new_address_is_asked_for_it) {
    outside_.router = "203.0.113.2";
    router_.answers = {gives("203.0.113.2", 4001), gives("203.0.113.9", 4001)};
    start(&router_);
    ASSERT_TRUE(becomes(Reachability::publicly, 5s));
    EXPECT_EQ(report().mapped, "/ip4/203.0.113.2/tcp/4001");
    world_.run_for(2min);
    router_moves_to("203.0.113.9");
    const auto is_new = [this] { return report().mapped == "/ip4/203.0.113.9/tcp/4001"; };
    EXPECT_TRUE(world_.run_until(is_new, 30s));
    EXPECT_FALSE(announces("203.0.113.2"));
}

TEST_F(HostBehindRouterTest, of_its_own_private_addresses_the_likeliest_few_are_told) {
    for (int bridge = 17; bridge < 27; ++bridge)
        behind_.bridges.push_back(fmt::format("192.168.{}.1", bridge));
    router_.answers = {nobody()};
    start(&router_);
    ASSERT_TRUE(world_.run_until([&] { return report().relays.size() == 1; }, 20s));
    const auto told = b_->addresses();
    ASSERT_EQ(told.size(), 4u);
    EXPECT_EQ(told.front(), "/ip4/192.168.1.2/tcp/4001");
    EXPECT_TRUE(told.back().ends_with("/p2p-circuit"));
    EXPECT_EQ(report().interfaces.size(), 11u);
}

TEST_F(HostBehindRouterTest, whoever_says_what_to_announce_asks_no_router) {
    HostOptions of_b = options(node_, behind_, 2);
    of_b.port_mapper = &router_;
    of_b.announce = {"/ip4/10.9.9.9/tcp/4001"};
    b_ = make_host(std::move(of_b)).value();
    a_ = make_host(options(other_, other_.network(), 1)).value();
    world_.run_for(1min);
    EXPECT_EQ(router_.asked, 0);
    EXPECT_EQ(b_->addresses(), std::vector<std::string>{"/ip4/10.9.9.9/tcp/4001"});
}

TEST_F(HostBehindRouterTest, a_host_that_stops_gives_the_port_back) {
    start(&router_);
    ASSERT_TRUE(becomes(Reachability::publicly, 5s));
    world_.run_task(b_->stop());
    EXPECT_EQ(router_.removed, std::vector<std::string>{node_.ip() + ":4001"});
    EXPECT_FALSE(node_.options().dialable);
}

}  // namespace
}  // namespace dedloc::p2p
