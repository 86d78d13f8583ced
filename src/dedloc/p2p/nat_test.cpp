// Reachability: what a host concludes, and holes punched on loopback.
#include <algorithm>
#include <gtest/gtest.h>
#include <list>

#include "dedloc/p2p/autonat.h"
#include "dedloc/p2p/dcutr.h"
#include "dedloc/p2p/host_testing.h"
#include "dedloc/p2p/make_host.h"
#include "dedloc/p2p/nat_observed.h"
#include "dedloc/runtime/real.h"
#include "dedloc/runtime/runtime_testing.h"
#include "dedloc/sim/world.h"

namespace dedloc::p2p {
namespace {

TEST(PublicAddress, is_what_means_the_same_everywhere) {
    for (const char* ip : {"1.1.1.1", "203.0.113.9", "100.63.255.255", "172.32.0.1", "2a00::1"})
        EXPECT_TRUE(is_public_address(ip)) << ip;
    for (const char* ip : {"10.0.0.1",
                           "192.168.1.1",
                           "172.16.0.1",
                           "172.31.255.255",
                           "100.64.0.1",
                           "127.0.0.1",
                           "169.254.1.1",
                           "0.0.0.0",
                           "224.0.0.1",
                           "255.255.255.255",
                           "198.18.0.1",
                           "::1",
                           "fe80::1",
                           "fd00::1",
                           "::ffff:10.0.0.1",
                           "example.org",
                           ""})
        EXPECT_FALSE(is_public_address(ip)) << ip;
    EXPECT_TRUE(is_public_address("::ffff:1.1.1.1"));
}

TEST(Subnet, is_an_ipv4_address_or_64_bits_of_an_ipv6_address) {
    EXPECT_EQ(subnet_of("203.0.113.9"), "203.0.113.9");
    EXPECT_NE(subnet_of("203.0.113.9"), subnet_of("203.0.113.8"));
    EXPECT_EQ(subnet_of("2a00:1:2:3::1"), subnet_of("2a00:1:2:3:a:b:c:d"));
    EXPECT_NE(subnet_of("2a00:1:2:3::1"), subnet_of("2a00:1:2:4::1"));
    EXPECT_EQ(subnet_of("example.org"), "example.org");
}

PeerId peer(std::uint8_t number) {
    return security::Identity::from_seed(Bytes(32, number)).value().id();
}

Observation seen(std::uint8_t by, const std::string& at, wire::Multiaddr what, bool of_port) {
    return {.observer = peer(by),
            .observer_ip = at,
            .address = std::move(what),
            .of_listen_port = of_port};
}

TEST(ObservedAddresses, the_mapping_of_the_listen_port_is_where_to_punch) {
    ObservedAddresses observed(is_public_address);
    EXPECT_TRUE(observed.note(seen(1, "9.9.9.9", tcp("5.5.5.5", 1111), false)));
    // Nothing was seen of the listen port: most NATs keep ports.
    EXPECT_EQ(observed.to_punch({4001}), std::vector<wire::Multiaddr>{tcp("5.5.5.5", 4001)});
    EXPECT_TRUE(observed.note(seen(2, "9.9.9.8", tcp("5.5.5.5", 2222), true)));
    EXPECT_EQ(observed.to_punch({4001}), std::vector<wire::Multiaddr>{tcp("5.5.5.5", 2222)});
    EXPECT_FALSE(observed.mapping_varies());
    EXPECT_EQ(observed.all().size(), 2u);
}

TEST(ObservedAddresses, of_the_listen_port_is_known_what_was_last_seen_of_it_at_the_same_address) {
    ObservedAddresses observed(is_public_address);
    EXPECT_TRUE(observed.note(seen(1, "9.9.9.9", tcp("5.5.5.5", 1111), true)));
    EXPECT_FALSE(observed.note(seen(1, "9.9.9.9", tcp("5.5.5.5", 2222), false)));
    // The router has another address now.
    EXPECT_TRUE(observed.note(seen(1, "9.9.9.9", tcp("6.6.6.6", 3333), false)));
    EXPECT_EQ(observed.all(), std::vector<wire::Multiaddr>{tcp("6.6.6.6", 3333)});
}

TEST(ObservedAddresses, two_ports_seen_from_two_machines_reveal_a_symmetric_nat) {
    ObservedAddresses observed(is_public_address);
    EXPECT_TRUE(observed.note(seen(1, "9.9.9.9", tcp("5.5.5.5", 1111), true)));
    EXPECT_TRUE(observed.note(seen(2, "9.9.9.8", tcp("5.5.5.5", 2222), true)));
    EXPECT_TRUE(observed.mapping_varies());
    observed.forget(peer(1));
    EXPECT_FALSE(observed.mapping_varies());
}

TEST(ObservedAddresses, private_ones_and_names_are_not_kept_and_memory_is_bounded) {
    ObservedAddresses observed(is_public_address);
    EXPECT_FALSE(observed.note(seen(1, "9.9.9.9", tcp("10.0.0.1", 1), true)));
    EXPECT_FALSE(observed.note(seen(1, "9.9.9.9", tcp("example.org", 1), true)));
    for (std::uint8_t i = 1; i < 100; ++i)
        observed.note(seen(i, "9.9.9.9", tcp("5.5.5.5", i), true));
    EXPECT_EQ(observed.all().size(), observers_max);
    EXPECT_LE(observed.to_punch({1}).size(), punch_addresses_max);
}

TEST(HolePunching, roles_follow_the_specification_and_forgive_those_who_do_not) {
    using enum PunchSide;
    for (int attempt = 1; attempt <= 3; ++attempt) {
        EXPECT_TRUE(punches_as_client(a, attempt, "dedloc/0.1.0"));
        EXPECT_FALSE(punches_as_client(b, attempt, "dedloc/0.1.0"));
        EXPECT_FALSE(punches_as_client(a, attempt, "p2pd/0.1"));
        EXPECT_TRUE(punches_as_client(b, attempt, "p2pd/0.1"));
        EXPECT_TRUE(punches_as_client(b, attempt, "go-libp2p/0.32.1"));
    }
    EXPECT_TRUE(punches_as_client(a, 1, "go-libp2p/0.48.0"));
    EXPECT_FALSE(punches_as_client(a, 2, "go-libp2p/0.48.0"));
    EXPECT_FALSE(punches_as_client(b, 2, "kubo/0.30"));
    EXPECT_TRUE(punches_as_client(b, 3, "kubo/0.30"));
}

TEST(Autonat, dials_only_the_address_it_sees_and_each_port_once) {
    std::vector<Bytes> asked;
    for (const char* text : {"/ip4/10.0.0.1/tcp/4001",
                             "/ip4/8.8.8.8/tcp/4001",
                             "/ip4/8.8.8.8/tcp/22",
                             "/ip4/8.8.8.8/tcp/0",
                             "/ip4/8.8.8.8/udp/4001/quic-v1"})
        asked.push_back(wire::Multiaddr::from_text(text).value().bytes());
    asked.push_back(Bytes(5, 0xff));
    const auto dialled = AutonatServer::to_dial(asked, "5.5.5.5");
    EXPECT_EQ(dialled, (std::vector<wire::Multiaddr>{tcp("5.5.5.5", 4001), tcp("5.5.5.5", 22)}));
}

// ------------------------------------------------------------------------------- in virtual time

// The machine of a server whose firewall lets nothing out.
class DialsNobody final : public runtime::NetworkLike {
  public:
    using NetworkLike::NetworkLike;
    Task<Result<std::unique_ptr<runtime::Connection>>> connect(runtime::SocketAddress,
                                                               TimePoint) override {
        co_return Error(ErrorKind::peer_gone, "nothing leaves here");
    }
};

// The machine of one whom a firewall keeps away from one host.
class CannotDial final : public runtime::NetworkLike {
  public:
    CannotDial(runtime::Network& model, std::string host)
        : NetworkLike(model), host_(std::move(host)) {}
    Task<Result<std::unique_ptr<runtime::Connection>>> connect(runtime::SocketAddress address,
                                                               TimePoint deadline) override {
        if (address.host == host_) address.port = 1;  // where nobody listens
        return model_.connect(std::move(address), deadline);
    }

  private:
    std::string host_;
};

struct SimHost {
    std::unique_ptr<Host> host;
    NatReport report() const { return nat_of(*host)->nat_report(); }
    bool uses(const SimHost& relay) const {
        const auto relays = report().relays;
        return std::ranges::any_of(
            relays, [&](const RelayUse& use) { return use.relay == relay.host->id(); });
    }
};

class ReachabilityTest : public ::testing::Test {
  protected:
    SimHost& add(bool dialable) {
        sim::NodeOptions machine;
        machine.dialable = dialable;
        sim::SimNode& node = world_.add_node(machine);
        return add(node, node.network(), static_cast<std::uint8_t>(world_.nodes_count()));
    }
    SimHost& add(sim::SimNode& node, runtime::Network& network, std::uint8_t seed) {
        HostOptions options = simulated_host(world_, node, seed, &network);
        options.nat.is_public = [](std::string_view) { return true; };
        hosts_.push_back({make_host(std::move(options)).value()});
        return hosts_.back();
    }
    void TearDown() override {
        for (auto& one : hosts_) world_.run_task(one.host->stop());
        hosts_.clear();
    }
    static Task<void> dial_task(Host* from, std::string address) {
        const TimePoint deadline = from->clock().now() + 20s;
        auto peer = co_await from->dial(address, deadline);
        EXPECT_TRUE(peer);
    }
    void dial(SimHost& from, SimHost& to) {
        world_.run_task(dial_task(from.host.get(), to.host->addresses().at(0)));
    }
    // As members of a run do.
    static void protect(SimHost& a, SimHost& b) {
        a.host->protect(b.host->id(), true);
        b.host->protect(a.host->id(), true);
    }
    bool becomes(const SimHost& host, Reachability wanted, Duration within) {
        return world_.run_until([&] { return host.report().reachability == wanted; }, within);
    }

    sim::World world_{11};
    std::list<SimHost> hosts_;
};

TEST_F(ReachabilityTest, whoever_is_reached_by_a_stranger_is_public_and_serves_as_relay) {
    SimHost& a = add(true);
    SimHost& b = add(false);
    EXPECT_EQ(a.report().reachability, Reachability::unknown);
    EXPECT_FALSE(a.report().serves_as_relay);
    dial(b, a);
    EXPECT_TRUE(
        world_.run_until([&] { return a.report().reachability == Reachability::publicly; }, 1s));
    EXPECT_TRUE(a.report().serves_as_relay);
    EXPECT_EQ(a.report().public_now.size(), 1u);
}

TEST_F(ReachabilityTest, who_cannot_be_dialled_back_is_private_and_takes_a_reservation) {
    SimHost& a = add(true);
    SimHost& b = add(false);
    dial(b, a);
    ASSERT_TRUE(
        world_.run_until([&] { return b.report().reachability == Reachability::privately; }, 60s));
    ASSERT_TRUE(world_.run_until([&] { return b.report().relays.size() == 1; }, 10s));
    EXPECT_EQ(a.report().relay.reservations, 1u);
    EXPECT_FALSE(b.report().serves_as_relay);
    EXPECT_EQ(a.report().reachability, Reachability::publicly);
}

TEST_F(ReachabilityTest, who_is_dialled_back_is_public) {
    SimHost& a = add(true);
    SimHost& b = add(true);
    dial(b, a);
    ASSERT_TRUE(
        world_.run_until([&] { return b.report().reachability == Reachability::publicly; }, 60s));
    EXPECT_NE(b.report().reason.find("dialled us back"), std::string::npos) << b.report().reason;
    // The stranger's connection is gone again, and the one between the two is the same as before.
    world_.run_for(10s);
    EXPECT_EQ(b.host->connected_peers(), std::vector<PeerId>{a.host->id()});
    EXPECT_EQ(a.host->connected_peers(), std::vector<PeerId>{b.host->id()});
    EXPECT_TRUE(b.report().relays.empty()) << "what it took before it knew";
}

// A campus: neighbours come in, outsiders do not.
TEST_F(ReachabilityTest, whom_a_neighbour_can_dial_keeps_its_place_for_those_who_cannot) {
    SimHost& f = add(true);
    sim::SimNode& outside = world_.add_node({});
    CannotDial filtered(outside.network(), world_.node(0).ip());
    SimHost& p = add(outside, filtered, 50);
    SimHost& g = add(true);
    dial(f, p);
    ASSERT_TRUE(becomes(f, Reachability::privately, 60s));
    ASSERT_TRUE(world_.run_until([&] { return f.uses(p); }, 10s));
    dial(g, f);
    protect(g, f);
    ASSERT_TRUE(becomes(f, Reachability::publicly, 1s));
    EXPECT_FALSE(world_.run_until([&] { return !f.uses(p); }, 30min));
    EXPECT_EQ(f.report().reachability, Reachability::publicly);

    f.host->disconnect(p.host->id());
    ASSERT_TRUE(world_.run_until([&] { return !f.uses(p); }, 5s));
    dial(f, p);
    EXPECT_TRUE(world_.run_until([&] { return f.uses(p); }, 5s)) << "it was gone for a moment";
}

TEST_F(ReachabilityTest, a_relay_that_can_no_longer_be_dialled_is_given_up_for_one_that_can) {
    SimHost& b = add(false);
    std::vector<SimHost*> relays;
    for (int i = 0; i < 3; ++i) relays.push_back(&add(true));
    for (SimHost* relay : relays) {
        dial(b, *relay);
        protect(b, *relay);
    }
    ASSERT_TRUE(world_.run_until([&] { return b.report().relays.size() == 2; }, 60s));
    std::vector<SimHost*> used;
    SimHost* spare = nullptr;
    for (std::size_t i = 0; i < relays.size(); ++i) {
        if (!b.uses(*relays[i])) {
            spare = relays[i];
            continue;
        }
        used.push_back(relays[i]);
        world_.node(1 + i).options().dialable = false;
    }
    ASSERT_EQ(used.size(), 2u);
    ASSERT_TRUE(becomes(*used[0], Reachability::privately, 30min));
    ASSERT_TRUE(becomes(*used[1], Reachability::privately, 30min));
    EXPECT_TRUE(world_.run_until([&] { return b.uses(*spare); }, 10s));
    world_.run_for(10s);
    EXPECT_EQ(b.report().relays.size(), 2u) << "the other has none to take its place";
}

TEST_F(ReachabilityTest, a_server_that_can_dial_nobody_does_not_judge_alone) {
    sim::SimNode& node = world_.add_node({});
    DialsNobody bad_network(node.network());
    // The one that would be asked first, by its id.
    const bool is_first = peer(21) < peer(22);
    SimHost& bad = add(node, bad_network, is_first ? 21 : 22);
    sim::SimNode& good_node = world_.add_node({});
    SimHost& good = add(good_node, good_node.network(), is_first ? 22 : 21);
    SimHost& b = add(true);
    for (SimHost* server : {&bad, &good}) {
        dial(b, *server);
        b.host->protect(server->host->id(), true);
        server->host->protect(b.host->id(), true);
    }
    const auto is = [&](Reachability wanted) { return b.report().reachability == wanted; };
    ASSERT_TRUE(world_.run_until([&] { return is(Reachability::privately); }, 1min));
    ASSERT_TRUE(world_.run_until([&] { return is(Reachability::publicly); }, 10min));
    EXPECT_FALSE(world_.run_until([&] { return !is(Reachability::publicly); }, 3h));
}

// ----------------------------------------------------------------------------------- on loopback

// The machine as it would be behind a router: it knows a private address only.
class BehindRouter final : public runtime::NetworkLike {
  public:
    using NetworkLike::NetworkLike;
    Task<Result<std::unique_ptr<runtime::Connection>>> connect_from(std::uint16_t local_port,
                                                                    runtime::SocketAddress address,
                                                                    TimePoint deadline) override {
        return model_.connect_from(local_port, std::move(address), deadline);
    }
    std::vector<std::string> interface_addresses() const override { return {"10.255.255.254"}; }
};

class PunchTest : public ::testing::Test {
  protected:
    Host& add(std::uint8_t seed, bool is_relay, std::string agent = "dedloc/0.1.0") {
        HostOptions options{.executor = loop_.executor(),
                            .clock = *clock_,
                            .network = is_relay ? *network_ : behind_,
                            .random = Random(seed),
                            .identity = security::Identity::from_seed(Bytes(32, seed)).value(),
                            .listen = {},
                            .announce = {}};
        options.listen = {is_relay ? "/ip4/127.0.0.1/tcp/0" : "/ip4/0.0.0.0/tcp/0"};
        options.agent_version = std::move(agent);
        options.nat.relay_for = RelayFor::anyone;
        options.nat.relay = is_relay ? RelayServing::always : RelayServing::never;
        options.nat.is_public = [](std::string_view ip) { return ip == "127.0.0.1"; };
        options.nat.ask_reachability = false;
        hosts_.push_back(make_host(std::move(options)).value());
        return *hosts_.back();
    }
    void TearDown() override {
        for (auto& host : hosts_) loop_.run_task(host->stop());
        hosts_.clear();
    }
    static Task<void> dial_task(Host* from, std::string address, Result<PeerId>* out) {
        const TimePoint deadline = from->clock().now() + 10s;
        *out = co_await from->dial(address, deadline);
    }
    Result<PeerId> dial(Host& from, std::string address) {
        Result<PeerId> peer = Error(ErrorKind::cancelled, "did not run");
        loop_.run_task(dial_task(&from, std::move(address), &peer));
        return peer;
    }
    static Task<void> wait(runtime::Clock* clock, const std::function<bool()>* condition) {
        const TimePoint limit = clock->now() + 8s;
        while (!(*condition)() && clock->now() < limit) co_await clock->sleep_for(1ms);
    }
    bool until(const std::function<bool()>& condition) {
        loop_.run_task(wait(clock_.get(), &condition));
        return condition();
    }

    runtime::Loop loop_;
    std::unique_ptr<runtime::Clock> clock_ = runtime::real_clock(loop_.executor());
    std::unique_ptr<runtime::Network> network_ = runtime::real_network(loop_.executor());
    BehindRouter behind_{*network_};
    std::vector<std::unique_ptr<Host>> hosts_;
};

// Both ends must open within the same moment, which a busy machine may miss: a few pairs may try.
// Not among the tests of a change until it holds on loaded machines: it fails one time in three
// there. Punching itself is judged in network namespaces (`dedloc-lab nat`).
TEST_F(PunchTest,
       DISABLED_a_relayed_connection_becomes_a_direct_one_from_listen_port_to_listen_port) {
    constexpr std::uint8_t pairs_max = 5;
    Host& relay = add(1, true);
    const std::string at_relay = relay.addresses().at(0) + "/p2p/" + relay.id().text();
    bool punched = false;
    for (std::uint8_t pair = 0; pair < pairs_max && !punched; ++pair) {
        Host& a = add(static_cast<std::uint8_t>(2 + 2 * pair), false);
        Host& b = add(static_cast<std::uint8_t>(3 + 2 * pair), false);
        ASSERT_TRUE(dial(b, at_relay));
        ASSERT_TRUE(dial(a, at_relay));
        ASSERT_TRUE(until([&] { return nat_of(b)->nat_report().relays.size() == 1; }));
        ASSERT_TRUE(until([&] { return !nat_of(a)->nat_report().observed.empty(); }));
        const auto lost = std::make_shared<int>(0);
        a.on_connection([lost](const PeerId&, bool connected) { *lost += connected ? 0 : 1; });

        const auto peer = dial(a, at_relay + "/p2p-circuit/p2p/" + b.id().text());
        ASSERT_TRUE(peer) << peer.error().message();
        punched = until([&] { return nat_of(a)->path_to(b.id()) == Path::punched; });
        EXPECT_TRUE(a.is_connected(b.id()));
        EXPECT_EQ(*lost, 0);
        if (!punched) continue;  // it goes on over the relay
        EXPECT_TRUE(until([&] { return nat_of(b)->path_to(a.id()) == Path::punched; }));
        EXPECT_TRUE(until([&] { return nat_of(relay)->nat_report().relay.circuits <= pair; }));
        EXPECT_TRUE(until([&] { return !nat_of(b)->is_punching(a.id()); }));
        EXPECT_EQ(nat_of(b)->nat_report().punches_succeeded, 1u);
    }
    EXPECT_TRUE(punched);
}

}  // namespace
}  // namespace dedloc::p2p
