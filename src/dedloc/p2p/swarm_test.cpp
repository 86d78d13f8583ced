// The rules of a swarm in the simulator: when a peer counts as here, which connection is used, and
// how one ends.

#include "dedloc/p2p/swarm.h"

#include <gtest/gtest.h>

#include "dedloc/p2p/host_testing.h"
#include "dedloc/p2p/limits.h"
#include "dedloc/runtime/together.h"
#include "dedloc/sim/world.h"
#include "dedloc/transport/limits.h"

namespace dedloc::p2p {
namespace {

constexpr std::uint16_t port = 4001;
constexpr Duration answer_max = 3s;  // less than the transport waits for a sign of life

// A machine that runs a swarm, and what its owner was told.
class Member {
  public:
    Member(sim::World& world, std::uint8_t seed, std::size_t connections)
        : node_(world.add_node({})),
          identity_(security::Identity::from_seed(Bytes(32, seed)).value()),
          scope_(world.executor()),
          swarm_(options(world, connections), scope_) {
        swarm_.on_peer = [this](const PeerId&, bool connected) { told.push_back(connected); };
        swarm_.on_connection = [this](const ConnectionPtr&) { ++connections_made; };
        swarm_.on_stream = [](const ConnectionPtr&, std::shared_ptr<transport::YamuxStream>) {};
        EXPECT_TRUE(swarm_.listen({tcp("0.0.0.0", port).text()}));
    }
    Task<void> stop() {
        co_await swarm_.close_all();
        co_await scope_.stop();
    }

    PeerId id() const { return identity_.id(); }
    Swarm& swarm() { return swarm_; }
    sim::SimNode& node() { return node_; }
    bool has(const Member& other) const { return swarm_.table().best(other.id()) != nullptr; }
    std::size_t connections_to(const Member& other) const {
        return swarm_.table().to(other.id()).size();
    }
    void know(const Member& other) {
        const auto machine = wire::Multiaddr::from_text(other.node_.address()).value();
        const wire::Multiaddr address = tcp(*machine.host(), port);
        swarm_.dialler().addresses().add(other.id(), std::vector(1, address));
    }
    Task<void> open(PeerId peer, std::optional<Error>* error) {
        const TimePoint deadline = node_.clock().now() + 5s;
        auto stream = co_await swarm_.open_stream(peer, deadline);
        if (!stream)
            *error = stream.error();
        else
            streams_.push_back(*std::move(stream));
    }

    std::vector<bool> told;  // a peer came: true; it went: false
    int connections_made = 0;

  private:
    SwarmOptions options(sim::World& world, std::size_t connections) {
        return {.executor = world.executor(),
                .clock = node_.clock(),
                .network = node_.network(),
                .identity = identity_,
                .upgrades = transport::UpgradeContext::make(identity_).value(),
                .keep_alive_interval = transport::keep_alive_interval,
                .keep_alive_answer_max = answer_max,
                .connections_max = connections,
                .limits_strangers = false};
    }

    sim::SimNode& node_;
    security::Identity identity_;
    runtime::Scope scope_;
    Swarm swarm_;
    std::vector<std::unique_ptr<transport::Stream>> streams_;
};

class SwarmTest : public ::testing::Test {
  protected:
    ~SwarmTest() override {
        for (const auto& member : members_) {
            member->node().thaw();
            world_.run_task(member->stop());
        }
    }
    Member& add(std::size_t connections = connections_max) {
        const auto seed = static_cast<std::uint8_t>(1 + members_.size());
        members_.push_back(std::make_unique<Member>(world_, seed, connections));
        return *members_.back();
    }
    std::optional<Error> open(Member& from, const Member& to) {
        std::optional<Error> error;
        world_.run_task(from.open(to.id(), &error));
        return error;
    }
    // Seconds until `from` has given up `to`, whose machine has stopped.
    double seconds_until_given_up(Member& from, const Member& to) {
        const TimePoint begun = from.node().clock().now();
        EXPECT_TRUE(world_.run_until([&] { return !from.has(to); }, 120s));
        return to_seconds(from.node().clock().now() - begun);
    }

    sim::World world_{31};
    std::vector<std::unique_ptr<Member>> members_;
};

TEST_F(SwarmTest, a_stream_dials_its_peer_and_the_next_one_uses_that_connection) {
    Member& a = add();
    Member& b = add();
    a.know(b);
    EXPECT_FALSE(open(a, b));
    EXPECT_FALSE(open(a, b));
    world_.run_for(1s);
    EXPECT_FALSE(open(b, a)) << "the other way needs no address";
    EXPECT_EQ(a.connections_made, 1);
    EXPECT_EQ(a.told, std::vector({true}));
    EXPECT_EQ(b.told, std::vector({true}));
}

TEST_F(SwarmTest, a_peer_without_a_known_address_is_gone) {
    const std::optional<Error> error = open(add(), add());
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::peer_gone);
}

TEST_F(SwarmTest, two_that_dial_each_other_keep_one_connection_and_hear_of_each_other_once) {
    Member& a = add();
    Member& b = add();
    a.know(b);
    b.know(a);
    std::optional<Error> error;
    std::vector<Task<void>> both;
    both.push_back(a.open(b.id(), &error));
    both.push_back(b.open(a.id(), &error));
    world_.run_task(runtime::all_of(std::move(both)));
    EXPECT_FALSE(error);
    world_.run_for(1s);
    EXPECT_EQ(a.connections_made, 2);
    EXPECT_EQ(a.swarm().table().best(b.id())->remote(), b.id());
    EXPECT_EQ(a.told, std::vector({true}));
    EXPECT_EQ(b.told, std::vector({true}));

    a.swarm().disconnect(b.id(), Error(ErrorKind::peer_gone, "enough"));
    world_.run_for(1s);
    EXPECT_EQ(a.connections_to(b), 0u);
    EXPECT_EQ(b.connections_to(a), 0u);
    EXPECT_EQ(a.told, std::vector({true, false})) << "once, although there were two";
    EXPECT_EQ(b.told, std::vector({true, false}));
}

TEST_F(SwarmTest, a_peer_that_is_not_needed_makes_room_and_one_that_is_stays) {
    Member& full = add(2);
    Member& needed = add();
    Member& missed_least = add();
    Member& last = add();
    for (Member* guest : {&needed, &missed_least, &last}) guest->know(full);
    full.swarm().needed().protect(needed.id(), true);
    ASSERT_FALSE(open(needed, full));
    world_.run_for(1s);
    ASSERT_FALSE(open(missed_least, full));
    world_.run_for(1s);
    ASSERT_FALSE(open(last, full));
    world_.run_for(1s);
    EXPECT_TRUE(full.has(needed));
    EXPECT_FALSE(full.has(missed_least));
    EXPECT_TRUE(full.has(last));
}

TEST_F(SwarmTest, a_swarm_of_needed_peers_takes_nobody_in_and_loses_nobody) {
    Member& full = add(1);
    Member& needed = add();
    Member& late = add();
    for (Member* guest : {&needed, &late}) guest->know(full);
    full.swarm().needed().protect(needed.id(), true);
    ASSERT_FALSE(open(needed, full));
    (void)open(late, full);
    world_.run_for(1s);
    EXPECT_FALSE(full.has(late));
    EXPECT_FALSE(late.has(full));
    EXPECT_TRUE(full.has(needed));
    EXPECT_EQ(needed.told, std::vector({true}));
}

TEST_F(SwarmTest, a_doubted_peer_that_is_silent_is_given_up_sooner) {
    Member& doubter = add();
    Member& trusting = add();
    Member& silent = add();
    for (Member* one : {&doubter, &trusting}) {
        one->know(silent);
        ASSERT_FALSE(open(*one, silent));
    }
    world_.run_for(1s);
    silent.node().freeze();
    doubter.swarm().doubt(silent.id());
    EXPECT_LE(seconds_until_given_up(doubter, silent), to_seconds(answer_max) + 0.5);
    EXPECT_TRUE(trusting.has(silent));
    EXPECT_GT(seconds_until_given_up(trusting, silent), 1);
}

TEST_F(SwarmTest, a_doubted_peer_that_answers_stays) {
    Member& a = add();
    Member& b = add();
    a.know(b);
    ASSERT_FALSE(open(a, b));
    a.swarm().doubt(b.id());
    world_.run_for(2 * answer_max);
    EXPECT_TRUE(a.has(b));
    EXPECT_EQ(a.connections_made, 1);
}

TEST_F(SwarmTest, a_closed_swarm_has_said_good_bye_and_takes_nobody_in) {
    Member& a = add();
    Member& b = add();
    Member& late = add();
    for (Member* guest : {&a, &late}) guest->know(b);
    ASSERT_FALSE(open(a, b));
    world_.run_task(b.swarm().close_all());
    world_.run_for(1s);
    EXPECT_EQ(a.told, std::vector({true, false})) << "at once, not after a silence";
    EXPECT_TRUE(open(late, b));
    EXPECT_EQ(b.swarm().table().count(), 0u);
    EXPECT_TRUE(open(b, a)) << "it dials nobody, either";
}

}  // namespace
}  // namespace dedloc::p2p
