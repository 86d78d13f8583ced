// Relays: hosts that nobody can dial, in the simulator's byte network.
#include <gtest/gtest.h>
#include <map>

#include "dedloc/p2p/diagnostics.h"
#include "dedloc/p2p/host_testing.h"
#include "dedloc/p2p/make_host.h"
#include "dedloc/p2p/relay_client.h"
#include "dedloc/p2p/relay_stream.h"
#include "dedloc/runtime/limited_network.h"
#include "dedloc/runtime/runtime_testing.h"
#include "dedloc/runtime/together.h"
#include "dedloc/security/envelope.h"
#include "dedloc/sim/world.h"
#include "dedloc/wire/identify.h"

namespace dedloc::p2p {
namespace {

class RelayTest : public ::testing::Test {
  protected:
    void TearDown() override {
        for (auto& [host, owned] : hosts_)
            if (owned) world_.run_task(host->stop());
        hosts_.clear();
    }

    // A machine of its own. Only relays have public addresses here.
    struct Kind {
        bool is_relay = false;
        bool dialable = false;
    };
    HostOptions options(Kind kind) {
        sim::NodeOptions machine;
        machine.dialable = kind.dialable;
        sim::SimNode& node = world_.add_node(machine);
        if (kind.is_relay) public_.insert(node.ip());
        const auto seed = static_cast<std::uint8_t>(world_.nodes_count());
        HostOptions options = simulated_host(world_, node, seed);
        options.nat.relay_for = RelayFor::anyone;
        options.nat.relay = kind.is_relay ? RelayServing::always : RelayServing::never;
        options.nat.is_public = [this](std::string_view ip) {
            return public_.contains(std::string(ip));
        };
        return options;
    }
    Host& add(HostOptions options) {
        auto made = make_host(std::move(options));
        EXPECT_TRUE(made) << (made ? "" : made.error().message());
        Host& host = **made;
        host.handle_call("echo", echo);
        hosts_[&host] = *std::move(made);
        return host;
    }
    Host& relay(RelayLimits limits = {}) {
        HostOptions made = options({.is_relay = true, .dialable = true});
        made.nat.relay_limits = limits;
        return add(std::move(made));
    }
    Host& hidden() { return add(options({})); }
    void stop(Host& host) {
        world_.run_task(host.stop());
        hosts_[&host].reset();
    }

    bool until(const std::function<bool()>& condition, Duration at_most = 30s) {
        return world_.run_until(condition, at_most);
    }
    static std::string address_with_id(Host& host) {
        return host.addresses().at(0) + "/p2p/" + host.id().text();
    }
    Result<PeerId> dial(Host& from, const std::string& address) {
        Result<PeerId> peer = Error(ErrorKind::cancelled, "did not run");
        world_.run_task(dial_task(&from, address, &peer));
        return peer;
    }
    static Task<void> dial_task(Host* from, std::string address, Result<PeerId>* out) {
        const TimePoint deadline = from->clock().now() + 20s;
        *out = co_await from->dial(address, deadline);
    }
    Result<Bytes> call(Host& from, const PeerId& to, Bytes request) {
        Result<Bytes> answer = Error(ErrorKind::cancelled, "did not run");
        world_.run_task(call_task(&from, to, std::move(request), &answer));
        return answer;
    }
    static Task<void> call_task(Host* from, PeerId to, Bytes request, Result<Bytes>* out) {
        const TimePoint deadline = from->clock().now() + 60s;
        *out = co_await from->call(to, "echo", std::move(request), deadline);
    }
    // Connects `host` to the relay and waits for the reservation.
    void reserve_at(Host& host, Host& relay) {
        ASSERT_TRUE(dial(host, address_with_id(relay)));
        ASSERT_TRUE(until([&] { return uses(host, relay); }));
    }
    static bool uses(Host& host, Host& relay) {
        for (const auto& use : nat_of(host)->nat_report().relays)
            if (use.relay == relay.id()) return true;
        return false;
    }
    static RelayCounters counters(Host& relay) { return nat_of(relay)->nat_report().relay; }

    sim::World world_{7};
    std::set<std::string> public_;
    std::map<Host*, std::unique_ptr<Host>> hosts_;
};

TEST_F(RelayTest, two_that_nobody_can_dial_call_each_other_over_a_relay) {
    Host& middle = relay();
    Host& a = hidden();
    Host& b = hidden();
    ASSERT_EQ(b.addresses().size(), 1u);
    reserve_at(b, middle);
    const auto addresses = b.addresses();
    ASSERT_EQ(addresses.size(), 2u);
    EXPECT_EQ(addresses[1], middle.addresses()[0] + "/p2p/" + middle.id().text() + "/p2p-circuit");

    a.add_addresses(b.id(), addresses);
    const Bytes request(1'000'000, 7);
    const auto answer = call(a, b.id(), request);
    ASSERT_TRUE(answer) << answer.error().message();
    EXPECT_EQ(*answer, request);
    EXPECT_EQ(nat_of(a)->path_to(b.id()), Path::relayed);
    EXPECT_EQ(nat_of(b)->path_to(a.id()), Path::relayed);
    EXPECT_EQ(counters(middle).circuits, 1u);
    EXPECT_GT(counters(middle).bytes, 2'000'000u);
    EXPECT_LT(counters(middle).bytes, 2'100'000u);
    // The other way on the same connection.
    ASSERT_TRUE(call(b, a.id(), Bytes(10, 1)));
    EXPECT_EQ(counters(middle).circuits_begun, 1u);
}

TEST_F(RelayTest, the_address_of_a_join_string_is_dialled_as_any_other) {
    Host& middle = relay();
    Host& a = hidden();
    Host& b = hidden();
    reserve_at(b, middle);
    const auto peer = dial(a, b.addresses().at(1) + "/p2p/" + b.id().text());
    ASSERT_TRUE(peer) << peer.error().message();
    EXPECT_EQ(*peer, b.id());
    EXPECT_TRUE(a.is_connected(b.id()));
}

TEST_F(RelayTest, without_a_reservation_the_relay_says_so) {
    Host& middle = relay();
    Host& a = hidden();
    HostOptions shy = options({});
    shy.nat.use_relays = false;
    Host& b = add(std::move(shy));
    ASSERT_TRUE(dial(b, address_with_id(middle)));
    const auto peer = dial(a, address_with_id(middle) + "/p2p-circuit/p2p/" + b.id().text());
    ASSERT_FALSE(peer);
    EXPECT_NE(peer.error().message().find("does not know that peer"), std::string::npos)
        << peer.error().message();
}

TEST_F(RelayTest, a_host_that_is_no_relay_refuses) {
    Host& plain = add(options({.is_relay = false, .dialable = true}));
    Host& a = hidden();
    ASSERT_TRUE(dial(a, address_with_id(plain)));
    EXPECT_FALSE(until([&] { return uses(a, plain); }, 20s));
    EXPECT_EQ(counters(plain).reservations, 0u);
}

TEST_F(RelayTest, reservations_are_limited_and_others_still_reach_those_inside) {
    RelayLimits limits;
    limits.reservations = 1;
    Host& middle = relay(limits);
    Host& first = hidden();
    Host& second = hidden();
    reserve_at(first, middle);
    ASSERT_TRUE(dial(second, address_with_id(middle)));
    EXPECT_FALSE(until([&] { return uses(second, middle); }, 20s));
    EXPECT_GE(counters(middle).refused, 1u);
    second.add_addresses(first.id(), first.addresses());
    EXPECT_TRUE(call(second, first.id(), Bytes(10, 1)));
    // The place is free again as soon as its owner is gone.
    stop(first);
    EXPECT_TRUE(until([&] { return uses(second, middle); }, 60s));
}

TEST_F(RelayTest, a_relay_for_members_gives_places_to_nobody_else) {
    HostOptions made = options({.is_relay = true, .dialable = true});
    made.nat.relay_for = RelayFor::members;
    Host& middle = add(std::move(made));
    Host& b = hidden();
    ASSERT_TRUE(dial(b, address_with_id(middle)));
    world_.run_for(20s);
    EXPECT_FALSE(uses(b, middle));
    EXPECT_EQ(counters(middle).reservations, 0u);
    middle.protect(b.id(), true);
    b.protect(middle.id(), true);
    EXPECT_TRUE(until([&] { return uses(b, middle); }, 2s)) << "it has become a member";
}

TEST_F(RelayTest, what_it_carries_counts_towards_the_caps_of_its_line) {
    sim::SimNode& machine = world_.add_node({});
    runtime::LimitedNetwork line(machine.network(), machine.clock());
    line.set_caps({.up = 50'000, .down = 0});
    HostOptions made = simulated_host(world_, machine, 90, &line);
    made.nat.relay = RelayServing::always;
    made.nat.is_public = [](std::string_view) { return true; };
    Host& middle = add(std::move(made));
    Host& b = hidden();
    reserve_at(b, middle);
    Host& a = hidden();
    a.add_addresses(b.id(), b.addresses());
    ASSERT_TRUE(call(a, b.id(), Bytes(10, 1)));
    const TimePoint begun = a.clock().now();
    ASSERT_TRUE(call(a, b.id(), Bytes(200'000, 1)));
    EXPECT_GT(a.clock().now() - begun, 7s) << "200 KB there and back, at 50 KB/s";
    stop(middle);
}

TEST_F(RelayTest, an_address_with_few_places_takes_one_of_the_address_with_most) {
    RelayLimits limits;
    limits.reservations = 4;
    Host& middle = relay(limits);
    sim::SimNode& crowded = world_.add_node({});
    for (std::uint8_t i = 0; i < 4; ++i) {
        HostOptions made = simulated_host(world_, crowded, static_cast<std::uint8_t>(110 + i));
        made.listen = {fmt::format("/ip4/0.0.0.0/tcp/{}", 4100 + i)};
        made.nat.relay = RelayServing::never;
        made.nat.ask_reachability = false;
        made.nat.is_public = [](std::string_view) { return false; };
        Host& one = add(std::move(made));
        ASSERT_TRUE(dial(one, address_with_id(middle)));
        ASSERT_TRUE(until([&] { return uses(one, middle); }, 5s));
    }
    ASSERT_EQ(counters(middle).reservations, 4u);
    Host& newcomer = hidden();
    ASSERT_TRUE(dial(newcomer, address_with_id(middle)));
    EXPECT_TRUE(until([&] { return uses(newcomer, middle); }, 5s));
    EXPECT_EQ(counters(middle).reservations, 4u);
}

TEST_F(RelayTest, who_is_no_member_yet_reaches_one_over_its_relay_with_few_bytes) {
    HostOptions made = options({.is_relay = true, .dialable = true});
    made.nat.relay_for = RelayFor::members;
    made.nat.relay_limits.introduction_bytes = 200'000;
    Host& middle = add(std::move(made));
    Host& b = hidden();
    ASSERT_TRUE(dial(b, address_with_id(middle)));
    middle.protect(b.id(), true);
    b.protect(middle.id(), true);
    ASSERT_TRUE(until([&] { return uses(b, middle); }, 5s));
    Host& a = hidden();
    a.add_addresses(b.id(), b.addresses());
    EXPECT_TRUE(call(a, b.id(), Bytes(10'000, 1))) << "a hello";
    EXPECT_FALSE(call(a, b.id(), Bytes(300'000, 1)));
    middle.protect(a.id(), true);
    EXPECT_TRUE(call(a, b.id(), Bytes(300'000, 1)));
}

TEST_F(RelayTest, a_reservation_is_renewed_while_it_is_needed) {
    RelayLimits limits;
    limits.reservation_life = 10s;
    Host& middle = relay(limits);
    Host& a = hidden();
    Host& b = hidden();
    reserve_at(b, middle);
    for (int i = 0; i < 12; ++i) {
        world_.run_for(7s);
        ASSERT_EQ(counters(middle).reservations, 1u) << "after " << 7 * (i + 1) << " s";
        ASSERT_TRUE(uses(b, middle));
    }
    a.add_addresses(b.id(), b.addresses());
    EXPECT_TRUE(call(a, b.id(), Bytes(10, 1)));
}

TEST_F(RelayTest, a_reservation_ends_with_its_connection) {
    Host& middle = relay();
    Host& b = hidden();
    reserve_at(b, middle);
    b.disconnect(middle.id());
    EXPECT_TRUE(until([&] { return counters(middle).reservations == 0; }));
    EXPECT_FALSE(uses(b, middle));
    EXPECT_EQ(b.addresses().size(), 1u);
}

TEST_F(RelayTest, two_relays_are_used_and_a_dead_one_is_replaced) {
    Host& r1 = relay();
    Host& r2 = relay();
    Host& r3 = relay();
    Host& a = hidden();
    Host& b = hidden();
    reserve_at(b, r1);
    reserve_at(b, r2);
    ASSERT_TRUE(dial(b, address_with_id(r3)));
    world_.run_for(10s);
    EXPECT_FALSE(uses(b, r3));
    a.add_addresses(b.id(), b.addresses());
    ASSERT_TRUE(call(a, b.id(), Bytes(10, 1)));
    const bool by_first = counters(r1).circuits == 1;
    stop(by_first ? r1 : r2);
    EXPECT_TRUE(until([&] { return uses(b, r3); }, 10s));
    // The old circuit is dead; the other relay leads there still.
    const auto again = call(a, b.id(), Bytes(10, 1));
    ASSERT_TRUE(again) << again.error().message();
    EXPECT_EQ(counters(by_first ? r2 : r1).circuits, 1u);
}

TEST_F(RelayTest, a_circuit_ends_at_its_limit_of_bytes_with_an_error) {
    RelayLimits limits;
    limits.circuit_bytes = 128 << 10;
    Host& middle = relay(limits);
    Host& a = hidden();
    Host& b = hidden();
    reserve_at(b, middle);
    a.add_addresses(b.id(), b.addresses());
    const auto answer = call(a, b.id(), Bytes(1 << 20, 7));
    ASSERT_FALSE(answer);
    EXPECT_EQ(answer.error().kind(), ErrorKind::peer_gone) << answer.error().message();
    EXPECT_TRUE(until([&] { return counters(middle).circuits == 0; }));
    // A new circuit begins anew.
    EXPECT_TRUE(call(a, b.id(), Bytes(1000, 7)));
}

TEST_F(RelayTest, a_circuit_ends_at_its_limit_of_time) {
    RelayLimits limits;
    limits.circuit_duration = 30s;
    Host& middle = relay(limits);
    Host& a = hidden();
    Host& b = hidden();
    reserve_at(b, middle);
    a.add_addresses(b.id(), b.addresses());
    ASSERT_TRUE(call(a, b.id(), Bytes(1000, 7)));
    EXPECT_TRUE(until([&] { return counters(middle).circuits == 0; }, 40s));
    EXPECT_TRUE(until([&] { return !a.is_connected(b.id()); }));
}

TEST_F(RelayTest, a_direct_way_is_taken_although_a_relayed_one_is_known) {
    Host& middle = relay();
    Host& a = hidden();
    HostOptions reachable = options({.is_relay = false, .dialable = true});
    Host& b = add(std::move(reachable));
    reserve_at(b, middle);
    ASSERT_EQ(b.addresses().size(), 2u);
    a.add_addresses(b.id(), b.addresses());
    ASSERT_TRUE(call(a, b.id(), Bytes(10, 1)));
    EXPECT_EQ(nat_of(a)->path_to(b.id()), Path::direct);
}

TEST_F(RelayTest, a_direct_connection_takes_the_place_of_a_relayed_one) {
    Host& middle = relay();
    HostOptions reachable = options({.is_relay = false, .dialable = true});
    reachable.nat.punch_holes = false;
    Host& a = add(std::move(reachable));
    Host& b = hidden();
    reserve_at(b, middle);
    a.add_addresses(b.id(), b.addresses());
    ASSERT_TRUE(call(a, b.id(), Bytes(10, 1)));
    ASSERT_EQ(nat_of(a)->path_to(b.id()), Path::relayed);
    const auto changes = std::make_shared<int>(0);
    a.on_connection([changes](const PeerId&, bool) { ++*changes; });
    // b is connected already, so that only dialling as a stranger does would make a second
    // connection: dialling the bare address does.
    ASSERT_TRUE(dial(b, a.addresses().at(0)));
    EXPECT_EQ(nat_of(b)->path_to(a.id()), Path::direct);
    EXPECT_TRUE(until([&] { return nat_of(a)->path_to(b.id()) == Path::direct; }));
    EXPECT_TRUE(until([&] { return counters(middle).circuits == 0; }));
    ASSERT_TRUE(call(a, b.id(), Bytes(10, 1)));
    EXPECT_EQ(*changes, 0) << "to those above, the peer was never gone";
}

TEST_F(RelayTest, the_callee_dials_back_to_a_caller_with_a_public_address) {
    Host& middle = relay();
    HostOptions open = options({.is_relay = true, .dialable = true});
    open.nat.relay = RelayServing::never;
    Host& a = add(std::move(open));
    Host& b = hidden();
    reserve_at(b, middle);
    a.add_addresses(b.id(), b.addresses());
    ASSERT_TRUE(call(a, b.id(), Bytes(10, 1)));
    EXPECT_TRUE(until([&] { return nat_of(b)->path_to(a.id()) == Path::reversed; }, 5s));
    EXPECT_TRUE(until([&] { return nat_of(a)->path_to(b.id()) == Path::direct; }, 5s));
    EXPECT_EQ(nat_of(b)->nat_report().reversals, 1u);
    EXPECT_TRUE(until([&] { return counters(middle).circuits == 0; }));
}

TEST_F(RelayTest, a_host_that_turns_out_to_be_public_tells_those_who_wait_for_a_relay) {
    HostOptions open = options({.is_relay = true, .dialable = true});
    open.nat.relay = RelayServing::automatic;
    open.nat.ask_reachability = false;
    Host& a = add(std::move(open));
    Host& b = hidden();
    ASSERT_TRUE(dial(b, address_with_id(a)));
    world_.run_for(5s);
    EXPECT_FALSE(uses(b, a));
    HostOptions far_away = options({.is_relay = true, .dialable = true});
    far_away.nat.relay = RelayServing::never;
    Host& c = add(std::move(far_away));
    ASSERT_TRUE(dial(c, address_with_id(a)));
    EXPECT_TRUE(until([&] { return uses(b, a); }, 2s));
    // And a knows b's new address, though nobody asked for it.
    EXPECT_TRUE(until([&] { return a.addresses_of(b.id()).size() == b.addresses().size(); }, 2s));
}

TEST_F(RelayTest, a_caller_dials_directly_once_the_callee_has_become_reachable) {
    Host& middle = relay();
    Host& a = hidden();
    HostOptions later = options({});
    sim::SimNode& machine = world_.node(world_.nodes_count() - 1);
    Host& b = add(std::move(later));
    reserve_at(b, middle);
    a.add_addresses(b.id(), b.addresses());
    ASSERT_TRUE(call(a, b.id(), Bytes(10, 1)));
    world_.run_for(20s);
    ASSERT_EQ(nat_of(a)->path_to(b.id()), Path::relayed);
    machine.options().dialable = true;
    public_.insert(machine.ip());
    b.handle_call("another", echo);  // is told together with the addresses
    EXPECT_TRUE(until([&] { return nat_of(a)->path_to(b.id()) == Path::direct; }, 5s));
    EXPECT_TRUE(until([&] { return counters(middle).circuits == 0; }));
}

// A peer that came to us may be one that nobody else can dial.
TEST_F(RelayTest, of_several_relays_those_that_it_dialled_itself_are_used) {
    std::vector<Host*> relays;
    for (int i = 0; i < 5; ++i) relays.push_back(&relay());
    std::ranges::sort(relays, {}, [](const Host* host) { return host->id(); });
    Host& b = add(options({.is_relay = false, .dialable = true}));
    for (Host* host : {relays[0], relays[1]}) {
        ASSERT_TRUE(dial(*host, address_with_id(b)));
        ASSERT_TRUE(until([&] { return uses(b, *host); }, 5s)) << "there is no other";
    }
    ASSERT_TRUE(dial(*relays[2], address_with_id(b)));
    for (Host* host : {relays[3], relays[4]}) ASSERT_TRUE(dial(b, address_with_id(*host)));
    world_.run_for(2s);

    stop(*relays[0]);
    stop(*relays[1]);
    EXPECT_TRUE(until([&] { return uses(b, *relays[3]) && uses(b, *relays[4]); }, 5s));
}

// A firewall shows only when somebody has tried to come in; this relay never tries.
TEST_F(RelayTest, a_public_address_where_nobody_has_come_in_is_no_reason_to_go_without_a_relay) {
    HostOptions never_asked = options({.is_relay = true, .dialable = true});
    never_asked.nat.ask_reachability = false;
    Host& middle = add(std::move(never_asked));
    HostOptions filtered = options({.is_relay = true, .dialable = false});
    filtered.nat.relay = RelayServing::never;
    Host& b = add(std::move(filtered));
    ASSERT_TRUE(dial(b, address_with_id(middle)));
    EXPECT_TRUE(until([&] { return uses(b, middle); }, 5s));
    Host& a = hidden();
    a.add_addresses(b.id(), b.addresses());
    EXPECT_TRUE(call(a, b.id(), Bytes(10, 1)));
}

// Networks of two kinds (IPv6 and IPv4; a VPN and the Internet), and machines in both.
class OneOfTwoNetworks final : public runtime::NetworkLike {
  public:
    OneOfTwoNetworks(runtime::Network& model, std::set<std::string>& others)
        : NetworkLike(model), others_(others) {}
    Task<Result<std::unique_ptr<runtime::Connection>>> connect(runtime::SocketAddress address,
                                                               TimePoint deadline) override {
        if (others_.contains(address.host))
            co_return Error(ErrorKind::peer_gone, "the network is unreachable");
        auto connected = co_await model_.connect(std::move(address), deadline);
        co_return connected;
    }

  private:
    std::set<std::string>& others_;
};

TEST_F(RelayTest, two_that_share_no_network_meet_over_a_relay_that_is_in_both) {
    Host& middle = relay();
    std::set<std::string> of_a;
    std::set<std::string> of_b;
    std::vector<std::unique_ptr<OneOfTwoNetworks>> networks;
    const auto add_to = [&](std::set<std::string>& own, std::set<std::string>& others) -> Host& {
        sim::SimNode& machine = world_.add_node({});
        networks.push_back(std::make_unique<OneOfTwoNetworks>(machine.network(), others));
        own.insert(machine.ip());
        public_.insert(machine.ip());
        const auto seed = static_cast<std::uint8_t>(60 + networks.size());
        HostOptions made = simulated_host(world_, machine, seed, networks.back().get());
        made.nat.relay = RelayServing::never;
        made.nat.is_public = [this](std::string_view ip) {
            return public_.contains(std::string(ip));
        };
        return add(std::move(made));
    };
    Host& a = add_to(of_a, of_b);
    Host& b = add_to(of_b, of_a);
    for (Host* host : {&a, &b}) ASSERT_TRUE(dial(*host, address_with_id(middle)));
    // Both are dialled back by the one in the middle: they are public, and have no places.
    ASSERT_TRUE(until([&] { return !uses(a, middle) && !uses(b, middle); }, 60s));
    // The two hear of each other, and try.
    a.add_addresses(b.id(), b.addresses());
    b.add_addresses(a.id(), a.addresses());
    EXPECT_FALSE(call(a, b.id(), Bytes(10, 1)));
    ASSERT_TRUE(until([&] { return uses(a, middle); }, 5s)) << "somebody cannot dial it";
    b.add_addresses(a.id(), a.addresses());
    EXPECT_TRUE(call(b, a.id(), Bytes(10, 1)));
    world_.run_for(20min);
    EXPECT_TRUE(uses(a, middle));
    EXPECT_TRUE(call(b, a.id(), Bytes(10, 1)));
    stop(a);
    stop(b);
}

TEST_F(RelayTest, a_hole_that_could_not_be_punched_is_tried_again_later) {
    Host& middle = relay();
    const auto behind_router = [this] {
        HostOptions made = options({.is_relay = true, .dialable = false});
        made.nat.relay = RelayServing::never;
        made.nat.ask_reachability = false;
        return made;
    };
    Host& a = add(behind_router());
    HostOptions of_b = behind_router();
    sim::SimNode& machine = world_.node(world_.nodes_count() - 1);
    Host& b = add(std::move(of_b));
    reserve_at(b, middle);
    a.add_addresses(b.id(), b.addresses());
    ASSERT_TRUE(call(a, b.id(), Bytes(10, 1)));
    world_.run_for(30s);
    ASSERT_FALSE(nat_of(b)->is_punching(a.id()));
    ASSERT_EQ(nat_of(a)->path_to(b.id()), Path::relayed);
    machine.options().dialable = true;
    EXPECT_TRUE(until([&] { return nat_of(a)->path_to(b.id()) == Path::punched; }, 90s));
    EXPECT_TRUE(until([&] { return counters(middle).circuits == 0; }));
    EXPECT_TRUE(until([&] { return nat_of(b)->nat_report().punches_succeeded == 1; }));
    EXPECT_EQ(nat_of(b)->nat_report().punches_tried, 1u) << "peers, not attempts";
}

TEST_F(RelayTest, one_address_does_not_take_all_circuits) {
    RelayLimits limits;
    limits.circuits_per_ip = 1;
    Host& middle = relay(limits);
    Host& b = hidden();
    Host& c = hidden();
    reserve_at(b, middle);
    sim::SimNode& machine = world_.add_node({});
    const auto on_machine = [&](std::uint8_t seed) -> Host& {
        HostOptions made = simulated_host(world_, machine, seed);
        made.listen.clear();
        return add(std::move(made));
    };
    Host& first = on_machine(101);
    Host& second = on_machine(102);
    for (Host* host : {&first, &second, &c}) host->add_addresses(b.id(), b.addresses());
    EXPECT_TRUE(call(first, b.id(), Bytes(10, 1)));
    EXPECT_FALSE(call(second, b.id(), Bytes(10, 1)));
    EXPECT_TRUE(call(c, b.id(), Bytes(10, 1)));
}

// -------------------------------------------------------------------------------- bare messages

// A peer that says to a relay, or to one behind it, whatever it likes.
class BareRelayTest : public RelayTest {
  protected:
    void TearDown() override {
        if (connection_) connection_->close(Error(ErrorKind::cancelled, "the test is over"));
        world_.run_task(scope_.stop());
        connection_.reset();
        RelayTest::TearDown();
    }
    void connect_to(Host& host) {
        machine_ = &world_.add_node({});
        world_.run_task(connect(&host));
    }
    Task<void> connect(Host* host) {
        const auto address = wire::Multiaddr::from_text(host->addresses().at(0)).value();
        runtime::SocketAddress socket{.host = *address.host(), .port = *address.tcp_port()};
        auto raw = co_await machine_->network().connect(socket, TimePoint::never());
        auto context = transport::UpgradeContext::make(identity_).value();
        auto secured = co_await transport::upgrade_dialled(
            *std::move(raw), std::move(context), host->id(), machine_->clock());
        PeerConnection::Settings settings{
            .executor = world_.executor(),
            .clock = machine_->clock(),
            .memory = nullptr,
            .keep_alive_interval = transport::keep_alive_interval,
            .keep_alive_answer_max = transport::keep_alive_answer_max};
        connection_ = std::make_shared<PeerConnection>(*std::move(secured), std::move(settings));
        connection_->start(scope_);
    }
    // The answer to `message`; empty: the stream was reset or ended.
    Bytes ask(std::string_view protocol, Bytes message) {
        Bytes answer;
        world_.run_task(ask_task(std::string(protocol), std::move(message), &answer));
        return answer;
    }
    Task<std::unique_ptr<transport::Stream>> opened_with(std::string protocol, Bytes message) {
        const TimePoint deadline = machine_->clock().now() + 60s;
        auto opened = co_await connection_->open_stream(deadline);
        std::unique_ptr<transport::Stream> stream = *std::move(opened);
        stream->set_deadline(deadline);
        stream->propose(protocol);
        stream->write(std::move(message));
        co_return stream;
    }
    // `message` and no more.
    Task<void> tell(std::string protocol, Bytes message) {
        const auto stream = co_await opened_with(std::move(protocol), std::move(message));
        stream->finish();
        auto ended = co_await read_relay_message(*stream);
        EXPECT_FALSE(ended);
    }
    Task<void> ask_task(std::string protocol, Bytes message, Bytes* answer) {
        const auto stream = co_await opened_with(std::move(protocol), std::move(message));
        auto got = co_await read_relay_message(*stream);
        if (got) *answer = *std::move(got);
    }
    std::optional<wire::RelayStatus> hop(const wire::HopMessage& request) {
        const Bytes bytes = wire::encode(request);
        const Bytes answer = ask(wire::relay_hop_protocol, wire::with_length_prefix(bytes));
        const auto decoded = wire::decode<wire::HopMessage>(answer);
        return decoded ? decoded->status : std::nullopt;
    }
    static wire::HopMessage connect_message(ByteView peer) {
        wire::HopMessage request;
        request.type = wire::HopType::connect;
        request.peer.emplace();
        request.peer->id = to_bytes(peer);
        return request;
    }

    // The first bytes of what identify would tell, kept where they are welcome.
    Task<void> begin_push(std::vector<std::shared_ptr<transport::Stream>>* streams) {
        const TimePoint deadline = machine_->clock().now() + 60s;
        auto opened = co_await connection_->open_stream(deadline);
        std::shared_ptr<transport::Stream> stream = *std::move(opened);
        stream->set_deadline(deadline);
        stream->propose(std::string(wire::identify_push_protocol));
        stream->write(Bytes(1, 100));
        const auto confirmed = co_await stream->confirm();
        if (confirmed) streams->push_back(std::move(stream));
    }
    // Opens a circuit and says nothing on it.
    Task<void> hold_circuit(PeerId to) {
        const TimePoint deadline = machine_->clock().now() + 60s;
        auto circuit = co_await open_circuit(connection_, std::move(to), deadline);
        if (circuit) circuits_.push_back(*std::move(circuit));
    }

    sim::SimNode* machine_ = nullptr;
    std::vector<std::shared_ptr<transport::Stream>> circuits_;
    security::Identity identity_ = security::Identity::from_seed(Bytes(32, 99)).value();
    std::shared_ptr<PeerConnection> connection_;
    runtime::Scope scope_{world_.executor()};
};

TEST_F(BareRelayTest, nonsense_is_answered_with_a_status_and_costs_nothing) {
    using Status = wire::RelayStatus;
    Host& middle = relay();
    Host& b = hidden();
    reserve_at(b, middle);
    connect_to(middle);
    wire::HopMessage empty;
    EXPECT_EQ(hop(empty), Status::malformed_message);
    wire::HopMessage status;
    status.type = wire::HopType::status;
    EXPECT_EQ(hop(status), Status::unexpected_message);
    wire::HopMessage nobody;
    nobody.type = wire::HopType::connect;
    EXPECT_EQ(hop(nobody), Status::malformed_message);
    EXPECT_EQ(hop(connect_message(Bytes(5, 0xff))), Status::malformed_message);
    EXPECT_EQ(hop(connect_message(identity_.id().bytes())), Status::malformed_message);
    EXPECT_EQ(hop(connect_message(middle.id().bytes())), Status::no_reservation);
    const Bytes broken = wire::with_length_prefix(Bytes(100, 0xff));
    const auto answer = wire::decode<wire::HopMessage>(ask(wire::relay_hop_protocol, broken));
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, Status::malformed_message);
    // More than a message may have: no answer at all.
    EXPECT_TRUE(ask(wire::relay_hop_protocol, Bytes(4, 0xff)).empty());
    EXPECT_EQ(counters(middle).circuits, 0u);
    EXPECT_EQ(counters(middle).reservations, 1u);
    EXPECT_EQ(hop(connect_message(b.id().bytes())), Status::ok);
}

TEST_F(BareRelayTest, who_is_no_relay_of_ours_brings_no_circuits) {
    Host& b = add(options({.is_relay = false, .dialable = true}));
    connect_to(b);
    wire::StopMessage knock;
    knock.type = wire::StopType::connect;
    knock.peer.emplace();
    knock.peer->id = to_bytes(identity_.id().bytes());
    const Bytes bytes = wire::encode(knock);
    const Bytes reply = ask(wire::relay_stop_protocol, wire::with_length_prefix(bytes));
    const auto answer = wire::decode<wire::StopMessage>(reply);
    ASSERT_TRUE(answer);
    EXPECT_EQ(answer->status, wire::RelayStatus::permission_denied);
    // Holes are punched over relayed connections only; this one is direct.
    wire::HolePunch punch;
    punch.type = wire::HolePunchType::connect;
    const Bytes asked = wire::encode(punch);
    EXPECT_TRUE(ask(wire::hole_punch_protocol, wire::with_length_prefix(asked)).empty());
}

TEST_F(BareRelayTest, silent_circuits_do_not_keep_a_peer_out) {
    Host& middle = relay();
    Host& b = add(options({.is_relay = false, .dialable = true}));
    reserve_at(b, middle);
    connect_to(middle);
    std::vector<Task<void>> opening;
    for (std::size_t i = 0; i < transport::handshakes_inbound_max; ++i)
        opening.push_back(hold_circuit(b.id()));
    world_.run_task(runtime::all_of(std::move(opening)));
    ASSERT_EQ(circuits_.size(), transport::handshakes_inbound_max);

    Host& a = hidden();
    const auto peer = dial(a, b.addresses().at(0));
    EXPECT_TRUE(peer) << peer.error().message();
    // Nor one that comes over the same relay.
    Host& c = hidden();
    const auto over_relay = dial(c, b.addresses().at(1) + "/p2p/" + b.id().text());
    EXPECT_TRUE(over_relay) << over_relay.error().message();
    circuits_.clear();
}

TEST_F(BareRelayTest, of_the_protocols_that_a_peer_tells_a_bounded_number_is_remembered) {
    Host& b = add(options({.is_relay = false, .dialable = true}));
    connect_to(b);
    wire::Identify identify;
    for (std::size_t i = 0; i < 2 * protocols_per_peer_max; ++i)
        identify.protocols.push_back("/p/" + std::to_string(i));
    const Bytes told = wire::encode(identify);
    const std::string push(wire::identify_push_protocol);
    world_.run_task(tell(push, wire::with_length_prefix(told)));
    const auto facts = view_of(b)->facts_of(identity_.id());
    ASSERT_TRUE(facts);
    EXPECT_EQ(facts->protocols.size(), protocols_per_peer_max);
}

TEST_F(BareRelayTest, news_of_a_peer_that_never_end_are_few_at_a_time) {
    Host& b = add(options({.is_relay = false, .dialable = true}));
    connect_to(b);
    std::vector<std::shared_ptr<transport::Stream>> streams;
    for (std::size_t i = 0; i < 10; ++i) world_.run_task(begin_push(&streams));
    EXPECT_EQ(streams.size(), identify_pushes_per_peer_max);
}

TEST_F(BareRelayTest, autonat_refuses_who_is_not_seen_at_a_public_address) {
    Host& b = add(options({.is_relay = false, .dialable = true}));
    connect_to(b);
    wire::AutonatMessage message;
    message.type = wire::AutonatType::dial;
    message.dial.emplace();
    message.dial->peer.emplace();
    message.dial->peer->id = to_bytes(identity_.id().bytes());
    const auto own = wire::Multiaddr::tcp(machine_->ip(), 4001).value();
    message.dial->peer->addresses.push_back(own.bytes());
    const auto status = [&] {
        const Bytes bytes = wire::encode(message);
        const Bytes reply = ask(wire::autonat_protocol, wire::with_length_prefix(bytes));
        const auto answer = wire::decode<wire::AutonatMessage>(reply);
        return answer && answer->response ? answer->response->status : std::nullopt;
    };
    EXPECT_EQ(status(), wire::AutonatStatus::dial_refused);
    public_.insert(machine_->ip());
    const TimePoint before = machine_->clock().now();
    EXPECT_EQ(status(), wire::AutonatStatus::dial_error);
    EXPECT_GE(machine_->clock().now() - before, autonat_dial_max) << "no port scanner";
    for (std::size_t i = 1; i < autonat_dials_per_peer_per_minute_max; ++i)
        EXPECT_EQ(status(), wire::AutonatStatus::dial_error);
    EXPECT_EQ(status(), wire::AutonatStatus::dial_refused);
    message.dial->peer->id = to_bytes(b.id().bytes());
    EXPECT_EQ(status(), wire::AutonatStatus::bad_request);
}

// --------------------------------------------------------------------------------- reservations

struct Granted {
    security::Identity relay = security::Identity::from_seed(Bytes(32, 1)).value();
    security::Identity peer = security::Identity::from_seed(Bytes(32, 2)).value();
    wire::HopMessage answer{};

    explicit Granted(const security::Identity* signer = nullptr) {
        wire::RelayVoucher voucher;
        voucher.relay = to_bytes(relay.id().bytes());
        voucher.peer = to_bytes(peer.id().bytes());
        voucher.expiration_unix_s = 1060;
        wire::RelayReservation reservation;
        reservation.expire_unix_s = 1060;
        reservation.voucher = security::seal_envelope(signer != nullptr ? *signer : relay,
                                                      wire::relay_voucher_domain,
                                                      as_bytes(wire::relay_voucher_type),
                                                      wire::encode(voucher));
        const auto address = wire::Multiaddr::from_text("/ip4/1.2.3.4/tcp/5").value();
        reservation.addresses.push_back(address.with_peer(relay.id()).bytes());
        reservation.addresses.push_back(address.with_peer(peer.id()).bytes());
        reservation.addresses.push_back(Bytes(3, 0xff));
        answer.type = wire::HopType::status;
        answer.status = wire::RelayStatus::ok;
        answer.reservation = std::move(reservation);
    }
    Result<Reservation> check() const {
        return check_reservation(answer, relay.id(), peer.id(), 1000.0);
    }
};

TEST(Reservation, holds_what_the_relay_signed_and_only_its_own_addresses) {
    const Granted granted;
    const auto checked = granted.check();
    ASSERT_TRUE(checked) << checked.error().message();
    EXPECT_EQ(checked->life, 60s);
    ASSERT_EQ(checked->addresses.size(), 1u);
    EXPECT_EQ(checked->addresses[0].text(), "/ip4/1.2.3.4/tcp/5");
}

TEST(Reservation, a_voucher_of_somebody_else_is_refused) {
    const auto stranger = security::Identity::from_seed(Bytes(32, 3)).value();
    EXPECT_FALSE(Granted(&stranger).check());
    Granted for_other;
    for_other.peer = stranger;
    EXPECT_FALSE(for_other.check());
}

TEST(Reservation, without_a_voucher_it_counts_as_the_specification_allows) {
    Granted granted;
    granted.answer.reservation->voucher.clear();
    EXPECT_TRUE(granted.check());
}

TEST(Reservation, clocks_that_differ_do_not_make_it_endless_or_nothing) {
    Granted granted;
    granted.answer.reservation->expire_unix_s = 5;  // long ago, by our clock
    EXPECT_GE(granted.check()->life, 1min) << "renewed every second, and lost with one message";
    EXPECT_LE(granted.check()->life, RelayLimits().reservation_life);
    granted.answer.reservation->expire_unix_s = 1001;
    EXPECT_EQ(granted.check()->life, relay_reservation_life_min);
    granted.answer.reservation->expire_unix_s = ~std::uint64_t{0};
    EXPECT_EQ(granted.check()->life, relay_reservation_life_max);
    // Our clock is a day behind, and the relay gives an hour: the reservation is renewed in time.
    granted.answer.reservation->expire_unix_s = 1000 + 25 * 3600;
    EXPECT_LE(granted.check()->life, RelayLimits().reservation_life);
}

TEST(Reservation, a_refusal_says_why) {
    Granted granted;
    granted.answer.status = wire::RelayStatus::reservation_refused;
    EXPECT_EQ(granted.check().error().kind(), ErrorKind::overloaded);
    granted.answer.status = wire::RelayStatus::permission_denied;
    EXPECT_EQ(granted.check().error().kind(), ErrorKind::denied);
    granted.answer.status.reset();
    EXPECT_EQ(granted.check().error().kind(), ErrorKind::peer_broke_protocol);
    granted.answer.status = wire::RelayStatus::ok;
    granted.answer.reservation.reset();
    EXPECT_EQ(granted.check().error().kind(), ErrorKind::peer_broke_protocol);
}

}  // namespace
}  // namespace dedloc::p2p
