// Which exchanges make room for which, where a voter makes as many plans as it likes.

#include "dedloc/allreduce/exchanges.h"

#include <gtest/gtest.h>

#include "dedloc/allreduce/allreduce_testing.h"

namespace dedloc::allreduce {
namespace {

constexpr std::size_t kept = 3;

class Keeper final : public TestPeer {
  public:
    explicit Keeper(sim::SimNode& node)
        : TestPeer(node, TransferOptions{}), exchanges(environment_, kept) {
        handlers_.on_stream(parts_method, [this](std::unique_ptr<p2p::MessageStream> stream) {
            return exchanges.serve(std::move(stream));
        });
    }
    Task<void> stop() {
        co_await handlers_.stop();
        co_await exchanges.stop();
    }
    Exchanges exchanges;
};

class ExchangesTest : public testing::Test {
  protected:
    ExchangesTest() : previous_(keeper_.open_step.previous) {}
    ~ExchangesTest() override {
        world_.run_task(keeper_.stop());
        for (sim::SimNode* node : {&here_, &honest_, &other_, &stranger_})
            world_.run_task(node->host().stop());
    }
    consensus::RoundPlan plan(const sim::SimNode& leader, std::uint32_t ballot) const {
        consensus::RoundPlan plan;
        plan.leader = leader.id();
        plan.ballot = ballot;
        plan.previous = previous_;
        plan.reduce_ms = 500;
        plan.round_ms = 1000;
        return plan;
    }
    static Digest digest(const consensus::RoundPlan& plan) {
        return consensus::decision_digest(wire::encode(plan));
    }
    bool take(const consensus::RoundPlan& plan) {
        if (!keeper_.exchanges.check_turn(plan, digest(plan))) return false;
        (void)keeper_.exchanges.begin(plan, digest(plan), nullptr);
        return true;
    }
    bool has(const consensus::RoundPlan& plan) const {
        return keeper_.exchanges.find(digest(plan)) != nullptr;
    }
    // Seconds until a stream of parts for this plan is ended.
    static Task<void> send_header(sim::SimNode& from, PeerId to, Digest plan, double& seconds) {
        const TimePoint begun = from.clock().now();
        auto stream = co_await from.host().open_stream(to, parts_method, begun + 60s);
        EXPECT_TRUE(stream);
        if (!stream) co_return;
        Bytes header = wire::encode(PartsHeader{plan, 0});
        (void)co_await (*stream)->write(std::move(header));
        const auto answer = co_await (*stream)->read();
        EXPECT_FALSE(answer);
        seconds = to_seconds(from.clock().now() - begun);
    }
    double time_to_refuse(const consensus::RoundPlan& plan) {
        double seconds = -1;
        world_.run_task(send_header(other_, here_.id(), digest(plan), seconds));
        return seconds;
    }

    sim::World world_{5};
    sim::SimNode& here_ = world_.add_node();
    sim::SimNode& honest_ = world_.add_node();
    sim::SimNode& other_ = world_.add_node();
    sim::SimNode& stranger_ = world_.add_node();
    Keeper keeper_{here_};
    Digest previous_;
};

TEST_F(ExchangesTest, of_one_leader_push_out_only_each_other) {
    const consensus::RoundPlan honest = plan(honest_, 0);
    ASSERT_TRUE(take(honest));
    for (std::uint32_t ballot = 1; ballot < 20; ballot += 2) {
        ASSERT_TRUE(take(plan(other_, ballot)));
        EXPECT_TRUE(has(honest)) << ballot;
        EXPECT_FALSE(ballot > 1 && has(plan(other_, ballot - 2)));
    }
    EXPECT_TRUE(has(plan(other_, 19)));
    // A round that came to nothing is tried again, with a ballot that a majority has promised to.
    const consensus::RoundPlan again = plan(honest_, 40);
    ASSERT_TRUE(take(again));
    EXPECT_TRUE(has(again));
    EXPECT_FALSE(has(honest));
    EXPECT_EQ(keeper_.exchanges.newest()->digest(), digest(again));
}

TEST_F(ExchangesTest, of_a_leader_that_began_again_take_the_place_of_what_it_forgot) {
    const consensus::RoundPlan forgotten = plan(honest_, 3);
    ASSERT_TRUE(take(forgotten));
    consensus::RoundPlan anew = forgotten;
    anew.round_ms += 1;
    EXPECT_TRUE(take(anew));
    EXPECT_FALSE(has(forgotten));
    EXPECT_FALSE(take(plan(honest_, 2))) << "it came late";
    EXPECT_TRUE(has(anew));
}

TEST_F(ExchangesTest, of_decided_steps_make_room_before_those_of_the_open_one) {
    const consensus::RoundPlan open = plan(honest_, 0);
    ASSERT_TRUE(take(open));
    previous_.bytes[0] ^= 1;
    const consensus::RoundPlan decided = plan(honest_, 0);
    ASSERT_TRUE(take(decided));
    const consensus::RoundPlan decided_too = plan(other_, 1);
    ASSERT_TRUE(take(decided_too));
    previous_ = keeper_.open_step.previous;
    ASSERT_TRUE(take(plan(other_, 1)));
    EXPECT_TRUE(has(open));
    EXPECT_FALSE(has(decided));
    EXPECT_TRUE(has(decided_too));
    ASSERT_TRUE(take(plan(here_, 2)));
    EXPECT_TRUE(has(open));
    ASSERT_TRUE(take(plan(stranger_, 3)));
    EXPECT_FALSE(has(open)) << "the oldest of all";
}

TEST_F(ExchangesTest, whoever_sends_parts_for_a_plan_that_was_overtaken_is_told_at_once) {
    const consensus::RoundPlan before = plan(honest_, 0);
    ASSERT_TRUE(take(before));
    ASSERT_TRUE(take(plan(honest_, 3)));
    EXPECT_LT(time_to_refuse(before), 1);
    EXPECT_FALSE(take(plan(honest_, 2)));
    EXPECT_LT(time_to_refuse(plan(honest_, 2)), 1);
    EXPECT_TRUE(keeper_.notes.empty()) << keeper_.notes.front();
    EXPECT_GT(time_to_refuse(plan(other_, 7)), 4) << "its plan may still come";
    EXPECT_EQ(keeper_.notes.size(), 1u);
}

}  // namespace
}  // namespace dedloc::allreduce
