#include <algorithm>
#include <gtest/gtest.h>
#include <set>

#include "tests/sim/bowl.h"
#include "tests/sim/model_around.h"
#include "tests/sim/virtual_run.h"

namespace dedloc::lab {
namespace {

constexpr std::size_t peers_count = 6;
constexpr std::size_t liar_index = 3;

struct OrdersTold {
    std::set<PeerId> banned;
    std::set<PeerId> on_probation;
    std::set<PeerId> back;
    std::set<PeerId> told_themselves;
    std::vector<PeerId> machines;  // in their order
};

class RobustVirtualRun : public testing::Test {
  protected:
    Result<VirtualResult> run(ScaledModel::Error error,
                              bool stubborn,
                              std::uint64_t steps,
                              std::uint32_t probation = 1) {
        VirtualRunOptions options;
        options.run.name = "robust";
        options.run.batch.target = peers_count * 8;
        options.run.batch.micro = 8;
        options.run.averaging.codec = codec::CodecId::fp32;
        options.run.averaging.leave_out_slow = false;
        options.run.evaluate_every = 0;
        options.run.robust.emplace();
        options.run.robust->tau = 1000;
        options.run.robust->check = 0.5;
        options.run.robust->probation = probation;
        if (local_batch_ > 0) make_local(options.run);
        options.machines.assign(peers_count, VirtualMachine{});
        options.machines[liar_index].stubborn = stubborn;
        options.steps = steps;
        options.make_learner =
            [this, error](const PeerId& peer) -> Result<std::unique_ptr<train::SampledModel>> {
            if (std::ranges::find(told_.machines, peer) == told_.machines.end())
                told_.machines.push_back(peer);
            DEDLOC_TRY(auto bowl, make_bowl(2000, peer));
            if (told_.machines.size() - 1 != liar_index) return bowl;
            return std::unique_ptr<train::SampledModel>(
                std::make_unique<ScaledModel>(std::move(bowl), peer, error));
        };
        options.on_event = [this](const events::Event& event) { hear(event); };
        auto result = run_virtually(options);
        return result;
    }
    // Four inner steps of each peer between two rounds.
    void make_local(run::RunFile& run) const {
        run.batch.micro = local_batch_;
        run.local.emplace();
        run.local->batch = local_batch_;
        run.local->optimizer.kind = optim::OptimizerKind::adamw;
        run.local->optimizer.schedule.peak = 0.01;
        run.optimizer.momentum = 0;
        run.optimizer.schedule.peak = 1;
    }
    void hear(const events::Event& event) {
        aborted_ += event.is<events::RoundFailed>();
        if (event.is<events::OrderEnded>()) told_.back.insert(event.peer);
        const auto* order = event.as<events::OrderGiven>();
        if (order == nullptr) return;
        if (order->order == "banned") told_.banned.insert(event.peer);
        if (order->order == "on probation") told_.on_probation.insert(event.peer);
        if (order->about_us) told_.told_themselves.insert(event.peer);
    }
    // A step may begin without somebody; one that has all is enough.
    static bool all_weigh_after(const VirtualResult& result, std::size_t steps) {
        return std::any_of(result.steps.begin() + static_cast<std::ptrdiff_t>(steps),
                           result.steps.end(),
                           [](const auto& step) { return step.samples == 8.0 * peers_count; });
    }
    void expect_banned(const Result<VirtualResult>& result) const {
        ASSERT_TRUE(result) << result.error().message();
        EXPECT_EQ(told_.banned, liar());
        EXPECT_EQ(told_.told_themselves, liar());
        EXPECT_TRUE(result->identical);
        EXPECT_EQ(result->steps.back().members, peers_count - 1);
    }
    std::set<PeerId> liar() const { return {told_.machines[liar_index]}; }

    OrdersTold told_;
    std::uint64_t local_batch_ = 0;  // samples; 0: no local updates
    std::size_t aborted_ = 0;        // rounds
};

TEST_F(RobustVirtualRun, honest_peers_are_checked_and_nobody_is_kept_out) {
    const auto result = run({}, false, 12);
    ASSERT_TRUE(result) << result.error().message();
    EXPECT_TRUE(told_.banned.empty());
    EXPECT_TRUE(told_.on_probation.empty());
    EXPECT_TRUE(result->identical);
    // Newcomers weigh nothing at first, everybody does in the end.
    EXPECT_LT(result->steps.front().samples, 8.0 * peers_count);
    EXPECT_TRUE(all_weigh_after(*result, 6));
}

// Only the founder weighs, and it has more to check than to compute: rounds wait for what it
// computes, and its checks leave it the time to.
TEST_F(RobustVirtualRun, many_newcomers_at_once_neither_stop_the_founder_nor_spin) {
    const auto result = run({}, false, 40, /*probation=*/3);
    ASSERT_TRUE(result) << result.error().message();
    EXPECT_LE(aborted_, 6 * peers_count);
    EXPECT_TRUE(all_weigh_after(*result, 12));
}

TEST_F(RobustVirtualRun, a_gradient_half_as_long_again_is_found_and_its_author_banned) {
    const auto result = run({.factor = 1.5f, .from_step = 6, .until_step = 1000}, true, 40);
    expect_banned(result);
}

TEST_F(RobustVirtualRun, a_peer_that_erred_is_told_and_is_back_when_it_computes_rightly) {
    const auto result = run({.factor = -1.0f, .from_step = 6, .until_step = 12}, false, 30);
    ASSERT_TRUE(result) << result.error().message();
    EXPECT_TRUE(told_.banned.empty());
    EXPECT_EQ(told_.on_probation, liar());
    EXPECT_EQ(told_.told_themselves, liar());
    EXPECT_EQ(told_.back, liar());
    EXPECT_TRUE(all_weigh_after(*result, 20));
}

// The liar's inner gradients point the other way: so does what it hands in, by its own steps.
TEST_F(RobustVirtualRun, of_local_updates_a_wrong_way_is_found_and_its_author_banned) {
    local_batch_ = 2;
    const auto result = run({.factor = -1.0f, .from_step = 6, .until_step = 1000}, true, 40);
    expect_banned(result);
}

TEST_F(RobustVirtualRun, honest_local_updates_are_checked_and_nobody_is_kept_out) {
    local_batch_ = 2;
    const auto result = run({}, false, 16);
    ASSERT_TRUE(result) << result.error().message();
    EXPECT_TRUE(told_.banned.empty());
    EXPECT_TRUE(told_.on_probation.empty());
    EXPECT_TRUE(result->identical);
    EXPECT_GT(result->steps.back().samples, 8.0 * (peers_count - 1));
}

}  // namespace
}  // namespace dedloc::lab
