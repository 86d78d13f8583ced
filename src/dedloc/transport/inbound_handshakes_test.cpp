// Strangers take all seats, and some have to go; and a peer gets in although they do.
#include "dedloc/transport/inbound_handshakes.h"

#include <gtest/gtest.h>

#include "dedloc/p2p/host_testing.h"
#include "dedloc/p2p/make_host.h"
#include "dedloc/runtime/together.h"
#include "dedloc/sim/world.h"
#include "dedloc/transport/limits.h"
#include "dedloc/transport/upgrade.h"

namespace dedloc::transport {
namespace {

TEST(InboundHandshakes, the_oldest_of_the_network_with_most_seats_goes) {
    InboundHandshakes seats;
    std::vector<std::unique_ptr<InboundHandshakes::Seat>> held;
    runtime::TaskId task = 0;
    for (const char* ip : {"203.0.113.9", "198.51.100.1", "198.51.100.2", "2a00::1"}) {
        held.push_back(seats.sit(ip));
        seats.belongs_to(held.back()->number(), ++task);
    }
    const std::string other = "192.0.2.1";
    const TimePoint now{1s};
    EXPECT_EQ(seats.unseat_one_for(other, now), 2u) << "the older of the two in 198.51.100.0/24";
    EXPECT_EQ(seats.size(), 3u);
    EXPECT_EQ(seats.unseat_one_for(other, now), 1u) << "all have one now: the oldest of all";
    held.erase(held.begin() + 1);  // its task has ended
    held.pop_back();
    EXPECT_EQ(seats.size(), 1u);
    EXPECT_EQ(seats.unseat_one_for(other, now), 3u);
    EXPECT_FALSE(seats.unseat_one_for(other, now));
}

TEST(InboundHandshakes, a_flood_of_one_network_drives_out_its_own_at_a_limited_pace_only) {
    constexpr int newcomers = 3000;  // in a second
    InboundHandshakes seats;
    std::vector<std::unique_ptr<InboundHandshakes::Seat>> held;
    TimePoint now{1s};
    int let_in = 0;
    for (int i = 0; i < newcomers; ++i, now = now + Duration(1s) / newcomers) {
        if (seats.size() >= handshakes_inbound_max && !seats.unseat_one_for("203.0.113.9", now))
            continue;
        held.push_back(seats.sit("203.0.113.9"));
        ++let_in;
    }
    const int paced = static_cast<int>(Duration(1s) / crowding_interval) + crowding_burst;
    EXPECT_NEAR(let_in, static_cast<int>(handshakes_inbound_max) + paced, 2);
    for (int i = 0; i < newcomers; ++i)
        EXPECT_TRUE(seats.unseat_one_for("198.51.100.1", now) || seats.size() == 0)
            << "others never wait";
}

TEST(InboundHandshakes, a_neighbour_of_those_who_flood_gets_a_seat_at_once_and_keeps_it) {
    InboundHandshakes seats;
    std::vector<std::unique_ptr<InboundHandshakes::Seat>> held;
    TimePoint now{1s};
    const auto flood = [&](Duration time) {
        for (const TimePoint end = now + time; now < end; now = now + 300us) {
            const int host = static_cast<int>(now.since_start / 300us) % 20;
            const std::string ip = "203.0.113." + std::to_string(host);
            if (seats.size() >= handshakes_inbound_max && !seats.unseat_one_for(ip, now)) continue;
            held.push_back(seats.sit(ip));
        }
    };
    flood(5s);
    ASSERT_TRUE(seats.unseat_one_for("203.0.113.99", now)) << "others of the network wait";
    const auto seat = seats.sit("203.0.113.99");
    constexpr runtime::TaskId its_task = 99;
    seats.belongs_to(seat->number(), its_task);
    flood(1s);
    bool is_there = false;
    for (int i = 0; i < static_cast<int>(handshakes_inbound_max); ++i)
        is_there = seats.unseat_one_for("198.51.100.1", now) == its_task || is_there;
    EXPECT_TRUE(is_there);
}

TEST(InboundHandshakes, a_network_is_what_one_stranger_may_own) {
    EXPECT_EQ(network_of("203.0.113.7"), network_of("203.0.113.200"));
    EXPECT_NE(network_of("203.0.113.7"), network_of("203.0.114.7"));
    EXPECT_EQ(network_of("2a00:1:2:3::1"), network_of("2a00:1:2:4::9"));
    EXPECT_NE(network_of("2a00:1:2::1"), network_of("2a00:1:3::1"));
    EXPECT_EQ(network_of(""), "");
}

class SilentStrangersTest : public ::testing::Test {
  protected:
    std::unique_ptr<p2p::Host> host(sim::SimNode& node, std::uint8_t seed) {
        p2p::HostOptions options = p2p::simulated_host(world_, node, seed);
        return p2p::make_host(std::move(options)).value();
    }
    // Connects again and again, says nothing, and keeps what it has.
    Task<void> keep_silent(int connections) {
        const runtime::SocketAddress target{.host = victim_node_.ip(), .port = 4001};
        for (int i = 0; i < connections; ++i) {
            const TimePoint deadline = stranger_.clock().now() + 5s;
            auto connected = co_await stranger_.network().connect(target, deadline);
            if (connected) silent_.push_back(*std::move(connected));
        }
        all_connected_ = true;
    }
    // A lane of a bundle of which the last one never comes.
    Task<void> send_lane(std::size_t number) {
        const runtime::SocketAddress target{.host = victim_node_.ip(), .port = 4001};
        auto connected = co_await stranger_.network().connect(target, TimePoint::never());
        if (!connected) co_return;
        LaneGreeting greeting;
        greeting.count = lanes_per_peer_max;
        greeting.bundle[0] = static_cast<std::uint8_t>(number / (lanes_per_peer_max - 1));
        greeting.index = static_cast<std::uint8_t>(number % (lanes_per_peer_max - 1));
        auto lane = co_await greet_lane(*std::move(connected), greeting, stranger_.clock());
        if (lane) silent_.push_back(*std::move(lane));
    }
    Task<void> see_it_end(std::size_t number) {
        Bytes buffer(1);
        (void)co_await silent_[number]->read_some(buffer);
        ++ended_;
    }
    static Task<void> dial(p2p::Host* from, std::string address, Result<PeerId>* out) {
        const TimePoint deadline = from->clock().now() + 3s;
        auto peer = co_await from->dial(std::move(address), deadline);
        *out = std::move(peer);
    }

    sim::World world_{9};
    sim::SimNode& victim_node_ = world_.add_node({});
    sim::SimNode& stranger_ = world_.add_node({});
    sim::SimNode& peer_node_ = world_.add_node({});
    std::vector<std::unique_ptr<runtime::Connection>> silent_;
    bool all_connected_ = false;
    std::size_t ended_ = 0;
};

TEST_F(SilentStrangersTest, half_made_bundles_of_lanes_do_not_keep_a_peer_out) {
    const auto victim = host(victim_node_, 1);
    const auto peer = host(peer_node_, 2);
    std::vector<Task<void>> lanes;
    for (std::size_t i = 0; i < handshakes_inbound_max; ++i) lanes.push_back(send_lane(i));
    world_.run_task(runtime::all_of(std::move(lanes)));
    ASSERT_EQ(silent_.size(), handshakes_inbound_max);
    runtime::Scope scope(world_.executor());
    for (std::size_t i = 0; i < silent_.size(); ++i) scope.spawn("watch", see_it_end(i));

    Result<PeerId> dialled = Error(ErrorKind::cancelled, "did not run");
    world_.run_task(dial(peer.get(), victim->addresses().at(0), &dialled));
    EXPECT_TRUE(dialled) << dialled.error().message();
    EXPECT_TRUE(world_.run_until([&] { return ended_ == lanes_per_peer_max - 1; }, 2s))
        << "a bundle that has lost a lane is given up: " << ended_;
    // The others had their time.
    EXPECT_TRUE(world_.run_until([&] { return ended_ == silent_.size(); }, negotiation_max));

    world_.run_task(scope.stop());
    silent_.clear();
    world_.run_task(peer->stop());
    world_.run_task(victim->stop());
}

TEST_F(SilentStrangersTest, a_thousand_of_them_do_not_keep_a_peer_out) {
    const auto victim = host(victim_node_, 1);
    const auto peer = host(peer_node_, 2);
    runtime::Scope scope(world_.executor());
    scope.spawn("silent strangers", keep_silent(1000));
    ASSERT_TRUE(world_.run_until([&] { return silent_.size() >= 2 * handshakes_inbound_max; }, 1h));
    ASSERT_FALSE(all_connected_) << "they still come while the peer dials";

    Result<PeerId> dialled = Error(ErrorKind::cancelled, "did not run");
    world_.run_task(dial(peer.get(), victim->addresses().at(0), &dialled));
    EXPECT_TRUE(dialled) << dialled.error().message();
    // The peer's last words are still on their way.
    EXPECT_TRUE(world_.run_until([&] { return victim->is_connected(peer->id()); }, 1s));
    EXPECT_FALSE(all_connected_);

    world_.run_task(scope.stop());
    silent_.clear();
    world_.run_task(peer->stop());
    world_.run_task(victim->stop());
}

}  // namespace
}  // namespace dedloc::transport
