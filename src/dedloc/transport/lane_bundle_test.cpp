// Bundles of lanes on the simulator's byte links: order, hostile pieces, ends; and hosts that open
// them by themselves.
#include "dedloc/transport/lane_bundle.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "dedloc/p2p/diagnostics.h"
#include "dedloc/p2p/host_testing.h"
#include "dedloc/p2p/make_host.h"
#include "dedloc/runtime/together.h"
#include "dedloc/sim/world.h"
#include "dedloc/transport/limits.h"

namespace dedloc::transport {
namespace {

using Lanes = std::vector<std::unique_ptr<runtime::Connection>>;

TEST(LanesWanted, grow_with_rate_and_distance_between_one_and_the_limit) {
    EXPECT_EQ(lanes_wanted(1e9, 5ms), 1u);     // near: one connection is enough
    EXPECT_EQ(lanes_wanted(1e5, 300ms), 1u);   // a slow link
    EXPECT_EQ(lanes_wanted(10e6, 300ms), 6u);  // 12 MB in flight
    EXPECT_EQ(lanes_wanted(1e9, 300ms), lanes_per_peer_max);
    EXPECT_EQ(lanes_wanted(0, 300ms), 1u);
}

class Bundles : public ::testing::Test {
  protected:
    void SetUp() override {
        left_node_ = &world_.add_node({});
        right_node_ = &world_.add_node({});
        left_scope_ = std::make_unique<runtime::Scope>(world_.executor());
        right_scope_ = std::make_unique<runtime::Scope>(world_.executor());
        std::vector<Task<void>> both;
        both.push_back(connect());
        both.push_back(accept());
        world_.run_task(runtime::all_of(std::move(both)));
    }
    void TearDown() override {
        left_.reset();
        right_.reset();
        left_lanes_.clear();
        right_lanes_.clear();
        world_.run_task(left_scope_->stop());
        world_.run_task(right_scope_->stop());
    }
    static constexpr std::size_t count = 3;

    Task<void> connect() {
        for (std::size_t i = 0; i < count; ++i) {
            runtime::SocketAddress socket{.host = right_node_->ip(), .port = 4001};
            auto lane = co_await left_node_->network().connect(socket, TimePoint::never());
            left_lanes_.push_back(*std::move(lane));
        }
    }
    Task<void> accept() {
        runtime::SocketAddress socket{.host = "0.0.0.0", .port = 4001};
        auto listening = right_node_->network().listen(socket);
        const std::shared_ptr<runtime::Listener> listener = *std::move(listening);
        for (std::size_t i = 0; i < count; ++i) {
            auto lane = co_await listener->accept();
            right_lanes_.push_back(*std::move(lane));
        }
    }
    void bundle_right() {
        right_ = make_lane_bundle(
            std::move(right_lanes_), right_memory_, world_.executor(), *right_scope_);
        right_->trust();
    }
    void bundle_left() {
        left_ =
            make_lane_bundle(std::move(left_lanes_), left_memory_, world_.executor(), *left_scope_);
        left_->trust();
    }

    static Bytes pattern(std::size_t size) {
        Bytes bytes(size);
        for (std::size_t i = 0; i < size; ++i)
            bytes[i] = static_cast<std::uint8_t>(i * 131 + i / 65537);
        return bytes;
    }
    static Bytes piece(std::uint64_t number, std::uint32_t size, std::size_t bytes) {
        Bytes out;
        base::put_u64_be(out, number);
        base::put_u32_be(out, size);
        out.resize(out.size() + bytes, static_cast<std::uint8_t>(number));
        return out;
    }
    // The largest pieces, from the second to one more than `count`.
    static Bytes pieces_ahead(std::uint64_t count) {
        Bytes early;
        for (std::uint64_t i = 1; i <= count; ++i)
            base::append(early, piece(i, lane_piece_bytes_max, lane_piece_bytes_max));
        return early;
    }
    Task<void> send(Bytes bytes) {
        auto written = co_await left_->write(bytes);
        EXPECT_TRUE(written);
    }
    Task<void> send_on(std::size_t lane, Bytes bytes) {
        auto written = co_await left_lanes_[lane]->write(bytes);
        EXPECT_TRUE(written);
    }
    Task<void> receive(std::size_t size) {
        Bytes buffer(100'000);
        while (received_.size() < size) {
            auto got = co_await right_->read_some(buffer);
            if (!got) {
                failure_ = got.error();
                co_return;
            }
            if (*got == 0) co_return;
            base::append(received_, ByteView(buffer).first(*got));
        }
    }
    void run(std::vector<Task<void>> tasks) { world_.run_task(runtime::all_of(std::move(tasks))); }

    sim::World world_{5};
    sim::SimNode* left_node_ = nullptr;
    sim::SimNode* right_node_ = nullptr;
    std::unique_ptr<runtime::Scope> left_scope_;
    std::unique_ptr<runtime::Scope> right_scope_;
    Lanes left_lanes_;
    Lanes right_lanes_;
    std::unique_ptr<LaneBundle> left_;
    std::unique_ptr<LaneBundle> right_;
    std::shared_ptr<LaneMemory> left_memory_ = std::make_shared<LaneMemory>();
    std::shared_ptr<LaneMemory> right_memory_ = std::make_shared<LaneMemory>();
    Bytes received_;
    std::optional<Error> failure_;
};

TEST_F(Bundles, megabytes_arrive_in_order) {
    bundle_left();
    bundle_right();
    const Bytes sent = pattern(5'000'000);
    std::vector<Task<void>> both;
    both.push_back(send(sent));
    both.push_back(receive(sent.size()));
    run(std::move(both));
    EXPECT_FALSE(failure_);
    EXPECT_TRUE(received_ == sent);
}

TEST_F(Bundles, pieces_are_put_in_order_whatever_lane_they_took) {
    bundle_right();
    std::vector<Task<void>> tasks;
    tasks.push_back(send_on(0, piece(2, 10, 10)));
    tasks.push_back(send_on(1, piece(1, 20, 20)));
    tasks.push_back(send_on(2, piece(0, 30, 30)));
    tasks.push_back(receive(60));
    run(std::move(tasks));
    Bytes expected(30, 0);
    expected.resize(50, 1);
    expected.resize(60, 2);
    EXPECT_EQ(received_, expected);
}

TEST_F(Bundles, pieces_that_have_no_place_end_the_bundle) {
    const auto try_piece = [this](Bytes bytes) {
        bundle_right();
        std::vector<Task<void>> tasks;
        tasks.push_back(send_on(0, std::move(bytes)));
        tasks.push_back(receive(1));
        run(std::move(tasks));
        ASSERT_TRUE(failure_);
        EXPECT_EQ(failure_->kind(), ErrorKind::peer_broke_protocol);
    };
    try_piece(piece(0, 0, 0));
}

TEST_F(Bundles, a_piece_longer_than_the_limit_ends_the_bundle) {
    bundle_right();
    std::vector<Task<void>> tasks;
    tasks.push_back(send_on(0, piece(0, lane_piece_bytes_max + 1, 1)));
    tasks.push_back(receive(1));
    run(std::move(tasks));
    ASSERT_TRUE(failure_);
    EXPECT_EQ(failure_->kind(), ErrorKind::peer_broke_protocol);
}

TEST_F(Bundles, the_same_number_twice_ends_the_bundle) {
    bundle_right();
    Bytes twice = piece(1, 4, 4);
    base::append(twice, piece(1, 4, 4));
    std::vector<Task<void>> tasks;
    tasks.push_back(send_on(0, std::move(twice)));
    tasks.push_back(receive(1));
    run(std::move(tasks));
    ASSERT_TRUE(failure_);
    EXPECT_EQ(failure_->kind(), ErrorKind::peer_broke_protocol);
}

TEST_F(Bundles, a_lane_that_ends_before_a_piece_for_which_the_others_wait_ends_the_bundle) {
    right_ =
        make_lane_bundle(std::move(right_lanes_), right_memory_, world_.executor(), *right_scope_);
    std::vector<Task<void>> tasks;
    tasks.push_back(
        send_on(0, pieces_ahead(2 * lane_bytes_ahead_before_trust_max / lane_piece_bytes_max)));
    tasks.push_back(receive(1));
    for (const std::size_t lane : {1u, 2u}) left_lanes_[lane]->close();
    run(std::move(tasks));
    ASSERT_TRUE(failure_);
    EXPECT_EQ(failure_->kind(), ErrorKind::peer_gone);
}

TEST_F(Bundles, what_is_too_far_ahead_waits_on_its_lane_for_the_missing_piece) {
    bundle_right();
    std::vector<Task<void>> tasks;
    // Twice as much as may wait before the other side is trusted.
    constexpr std::uint32_t size = lane_piece_bytes_max;
    constexpr std::uint64_t ahead = 2 * lane_bytes_ahead_before_trust_max / size;
    tasks.push_back(send_on(0, pieces_ahead(ahead)));
    tasks.push_back(send_on(1, piece(0, size, size)));
    tasks.push_back(receive(size * (ahead + 1)));
    run(std::move(tasks));
    EXPECT_FALSE(failure_);
    EXPECT_EQ(received_.size(), size * (ahead + 1));
}

TEST_F(Bundles, what_waits_ahead_comes_from_what_all_bundles_of_a_host_share) {
    bundle_right();
    constexpr std::uint32_t size = lane_piece_bytes_max;
    constexpr std::uint64_t ahead = 64;
    std::vector<Task<void>> tasks;
    tasks.push_back(send_on(0, pieces_ahead(ahead)));
    run(std::move(tasks));
    world_.run_for(10s);
    EXPECT_GT(right_memory_->lent, ahead * size - lane_bytes_ahead_before_trust_max);
    EXPECT_LT(right_memory_->lent, ahead * (size + 1024));
    right_->close();
    right_.reset();
    world_.run_for(10s);
    EXPECT_EQ(right_memory_->lent, 0u);
}

TEST_F(Bundles, without_room_in_what_all_share_a_bundle_holds_little_and_goes_on) {
    right_memory_->lent = right_memory_->lent_max - 1;  // by others
    bundle_right();
    constexpr std::uint32_t size = lane_piece_bytes_max;
    constexpr std::uint64_t ahead = 64;
    std::vector<Task<void>> tasks;
    tasks.push_back(send_on(0, pieces_ahead(ahead)));
    tasks.push_back(receive(size * (ahead + 1)));
    tasks.push_back(send_on(1, piece(0, size, size)));
    run(std::move(tasks));
    EXPECT_FALSE(failure_);
    EXPECT_EQ(received_.size(), size * (ahead + 1));
    EXPECT_EQ(right_memory_->lent, right_memory_->lent_max - 1);
}

TEST_F(Bundles, a_lane_that_ends_before_the_body_of_its_piece_has_broken_off) {
    bundle_right();
    std::vector<Task<void>> tasks;
    tasks.push_back(send_on(0, piece(0, 12, 0)));  // as long as a header
    run(std::move(tasks));
    left_lanes_.clear();
    std::vector<Task<void>> reading;
    reading.push_back(receive(12));
    run(std::move(reading));
    ASSERT_TRUE(failure_);
    EXPECT_EQ(failure_->kind(), ErrorKind::peer_gone);
}

TEST_F(Bundles, lanes_that_end_between_pieces_end_the_bundle_well) {
    bundle_right();
    std::vector<Task<void>> tasks;
    tasks.push_back(send_on(0, piece(0, 12, 12)));
    run(std::move(tasks));
    left_lanes_.clear();
    std::vector<Task<void>> reading;
    reading.push_back(receive(13));
    run(std::move(reading));
    EXPECT_FALSE(failure_);
    EXPECT_EQ(received_, Bytes(12, 0));
}

TEST_F(Bundles, a_lost_lane_ends_the_bundle) {
    bundle_left();
    bundle_right();
    std::vector<Task<void>> tasks;
    tasks.push_back(receive(10));
    left_->close();
    run(std::move(tasks));
    EXPECT_TRUE(received_.empty());
}

// ---- hosts

Task<void> swallow(std::unique_ptr<p2p::MessageStream> stream, std::size_t* bytes) {
    for (;;) {
        auto message = co_await stream->read();
        if (!message || !*message) break;
        *bytes += (*message)->size();
    }
    auto finished = co_await stream->finish();
    (void)finished;
}

// Two hosts far apart, with a link that one connection of ours would fill in the simulator; what is
// tested is that lanes are opened, used by bulk and by bulk alone, and go with the peer.
class FarHosts : public ::testing::Test {
  protected:
    void SetUp() override { start(p2p::connections_max); }
    void start(std::size_t connections) {
        sim::LinkOptions link;
        link.latency = 150ms;
        link.bytes_per_s = 10e6;
        world_.set_default_link(link);
        for (std::uint8_t i = 0; i < 2; ++i) {
            sim::SimNode& node = world_.add_node({});
            p2p::HostOptions options = p2p::simulated_host(world_, node, i);
            options.connections_max = connections;
            hosts_[i] = p2p::make_host(std::move(options)).value();
            hosts_[i]->handle_call("echo", p2p::echo);
            hosts_[i]->handle_stream("bulk", [this, i](auto stream) {
                return swallow(std::move(stream), &arrived_[i]);
            });
        }
        hosts_[0]->add_addresses(hosts_[1]->id(), hosts_[1]->addresses());
    }
    void TearDown() override {
        for (auto& guest : guests_) world_.run_task(guest->stop());
        for (auto& host : hosts_) world_.run_task(host->stop());
    }
    // So many others come to the second host, and each opens a stream there.
    Task<void> be_visited_by(std::size_t guests) {
        for (std::size_t i = 0; i < guests; ++i) {
            const auto seed = static_cast<std::uint8_t>(2 + i);
            guests_.push_back(
                p2p::make_host(p2p::simulated_host(world_, world_.add_node({}), seed)).value());
            p2p::Host& guest = *guests_.back();
            const PeerId house = hosts_[1]->id();
            guest.add_addresses(house, hosts_[1]->addresses());
            const TimePoint deadline = guest.clock().now() + 60s;
            auto opened = co_await guest.open_stream(house, "bulk", deadline);
            EXPECT_TRUE(opened);
            if (!opened) co_return;
            Bytes message(10, 7);
            auto written = co_await (*opened)->write(std::move(message));
            EXPECT_TRUE(written);
            streams_of_guests_.push_back(*std::move(opened));
        }
    }
    std::size_t guests_here() const {
        const auto is_here = [this](const auto& guest) {
            return hosts_[1]->is_connected(guest->id());
        };
        return static_cast<std::size_t>(std::ranges::count_if(guests_, is_here));
    }
    // `pause`: after each megabyte.
    Task<void> send(std::size_t from, std::size_t megabytes, Duration pause = Duration(0)) {
        p2p::Host& host = *hosts_[from];
        const PeerId peer = hosts_[1 - from]->id();
        const TimePoint deadline = host.clock().now() + 60s;
        auto opened = co_await host.open_stream(peer, "bulk", deadline);
        EXPECT_TRUE(opened);
        if (!opened) co_return;
        for (std::size_t i = 0; i < megabytes; ++i) {
            Bytes message(1u << 20, 7);
            auto written = co_await (*opened)->write(std::move(message));
            EXPECT_TRUE(written);
            if (pause > Duration(0)) co_await host.clock().sleep_for(pause);
        }
        auto finished = co_await (*opened)->finish();
        EXPECT_TRUE(finished);
        auto end = co_await (*opened)->read();
        EXPECT_TRUE(end);
    }
    Task<void> call(Duration* took) {
        p2p::Host& host = *hosts_[0];
        const TimePoint begun = host.clock().now();
        const PeerId peer = hosts_[1]->id();
        Bytes request(100);
        auto answer = co_await host.call(peer, "echo", std::move(request), begun + 60s);
        EXPECT_TRUE(answer);
        *took = host.clock().now() - begun;
    }
    std::size_t lanes(std::size_t from) {
        const auto facts = p2p::view_of(*hosts_[from])->facts_of(hosts_[1 - from]->id());
        return facts ? facts->lanes : 0;
    }

    sim::World world_{6};
    std::array<std::unique_ptr<p2p::Host>, 2> hosts_;
    std::array<std::size_t, 2> arrived_{};
    std::vector<std::unique_ptr<p2p::Host>> guests_;
    std::vector<std::unique_ptr<p2p::MessageStream>> streams_of_guests_;
};

TEST_F(FarHosts, open_lanes_by_themselves_and_both_send_bulk_over_them) {
    world_.run_task(send(0, 40));
    EXPECT_GE(lanes(0), 2u);
    EXPECT_EQ(lanes(0), lanes(1));
    EXPECT_LE(lanes(0), lanes_per_peer_max);
    // The side that did not dial has only to learn which of its methods are bulk.
    world_.run_task(send(1, 10));
    world_.run_task(send(0, 10));
    world_.run_task(send(1, 10));
    EXPECT_EQ(arrived_[1], 50u << 20);
    EXPECT_EQ(arrived_[0], 20u << 20);
}

TEST_F(FarHosts, lanes_go_with_the_peer_and_come_back_with_it) {
    world_.run_task(send(0, 40));
    ASSERT_GE(lanes(0), 2u);
    hosts_[0]->disconnect(hosts_[1]->id());
    EXPECT_EQ(lanes(0), 0u);
    world_.run_task(send(0, 40));
    EXPECT_GE(lanes(0), 2u);
    EXPECT_EQ(arrived_[1], 80u << 20);
}

TEST_F(FarHosts, a_stream_on_lanes_keeps_the_ordinary_connection_that_nothing_uses) {
    world_.run_task(send(0, 40));
    ASSERT_GE(lanes(0), 2u);
    world_.run_task(send(0, 3, p2p::connection_idle_max));
    EXPECT_GE(lanes(0), 2u);
    EXPECT_EQ(arrived_[1], 43u << 20);
}

TEST_F(FarHosts, each_lane_needs_room_as_a_connection_does) {
    TearDown();
    start(2);  // the ordinary one, and one more
    for (std::size_t i : {0, 1}) hosts_[i]->protect(hosts_[1 - i]->id(), true);
    world_.run_task(send(0, 40));
    EXPECT_EQ(lanes(0), 1u);
    EXPECT_EQ(arrived_[1], 40u << 20);
}

TEST_F(FarHosts, lanes_drive_out_only_connections_that_nobody_uses) {
    TearDown();
    start(1 + lanes_per_peer_max);
    for (std::size_t i : {0, 1}) hosts_[i]->protect(hosts_[1 - i]->id(), true);
    world_.run_task(be_visited_by(lanes_per_peer_max));
    world_.run_task(send(0, 40));
    EXPECT_EQ(lanes(0), 1u);
    EXPECT_EQ(guests_here(), lanes_per_peer_max);

    streams_of_guests_.clear();
    world_.run_for(lane_room_unused_min + lane_retry_pause);
    world_.run_task(send(0, 40));
    EXPECT_GE(lanes(0), 2u);
    EXPECT_LT(guests_here(), lanes_per_peer_max);
}

TEST_F(FarHosts, lanes_that_find_too_little_room_drive_nobody_out) {
    TearDown();
    start(2);
    for (std::size_t i : {0, 1}) hosts_[i]->protect(hosts_[1 - i]->id(), true);
    world_.run_task(be_visited_by(1));
    streams_of_guests_.clear();
    world_.run_for(lane_room_unused_min + 1s);
    world_.run_task(send(0, 40));
    EXPECT_EQ(lanes(0), 1u);
    EXPECT_EQ(guests_here(), 1u);
}

TEST_F(FarHosts, small_traffic_opens_none) {
    Duration took{};
    for (int i = 0; i < 20; ++i) world_.run_task(call(&took));
    EXPECT_EQ(lanes(0), 1u);
    EXPECT_LT(took, 400ms);
}

}  // namespace
}  // namespace dedloc::transport
