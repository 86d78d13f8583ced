// The delayed update, trainers that come and go, and aggregators, in virtual time.

#include "tests/sim/virtual_run.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <map>

#include "dedloc/averaging/messages.h"

#include "tests/sim/bowl.h"

namespace dedloc::lab {
namespace {

constexpr std::size_t elements = 200'000;

// Computing one batch takes four trainers 4 s; one round on these lines nearly as long.
VirtualRunOptions small_run(bool delayed) {
    VirtualRunOptions options;
    options.run.name = "virtual";
    options.run.batch.target = 256;
    options.run.batch.micro = 4;
    options.run.optimizer.schedule.peak = 0.02;
    options.run.averaging.part_elements_max = 16384;
    options.run.averaging.round_deadline_min = 30s;
    options.run.averaging.delayed = delayed;
    VirtualMachine machine;
    machine.samples_per_s = 16;
    machine.line = VirtualLine::both_ways(elements * 2 * 1.5 / 2.8);
    options.machines.assign(4, machine);
    options.make_learner = [](const PeerId& peer) { return make_bowl(elements, peer); };
    options.steps = 12;
    options.seed = 5;
    return options;
}

double samples_in(const VirtualResult& result) {
    double samples = 0;
    for (const BookedStep& step : result.steps) samples += step.samples;
    return samples;
}

TEST(VirtualRun, a_delayed_update_hides_the_round_behind_the_next_batch) {
    const auto waiting = run_virtually(small_run(false));
    const auto delayed = run_virtually(small_run(true));
    ASSERT_TRUE(waiting) << waiting.error().message();
    ASSERT_TRUE(delayed) << delayed.error().message();
    EXPECT_TRUE(waiting->identical);
    EXPECT_TRUE(delayed->identical);
    EXPECT_LT(waiting->compute_share, 0.65);
    EXPECT_GT(delayed->compute_share, 0.93);
    // The same samples a step, and as good a model from them.
    EXPECT_NEAR(samples_in(*delayed) / samples_in(*waiting), 1.0, 0.1);
    EXPECT_EQ(delayed->samples_dropped, 0u);
    EXPECT_EQ(delayed->samples_expired, 0);
    ASSERT_GE(delayed->steps.size(), 12u);
    EXPECT_LT(delayed->steps[11].loss, delayed->steps[1].loss * 0.7);
    EXPECT_NEAR(delayed->steps[11].loss, waiting->steps[11].loss, 0.15 * waiting->steps[1].loss);
}

// How often each message was sent.
std::map<std::string, int> messages_of(VirtualRunOptions options) {
    std::map<std::string, int> sent;
    options.prepare = [&sent](sim::World& world) {
        world.on_send([&sent](const sim::World::Outgoing& outgoing) {
            if (!outgoing.is_answer) ++sent[outgoing.method];
        });
    };
    const auto result = run_virtually(options);
    EXPECT_TRUE(result) << result.error().message();
    return sent;
}

TEST(VirtualRun, who_awaits_averages_asks_seldom_whether_the_leader_lives) {
    const VirtualRunOptions options = small_run(false);
    const int announcements = messages_of(options)[averaging::announce_method];
    const auto members_and_steps = static_cast<int>(3 * options.steps);
    EXPECT_GE(announcements, members_and_steps);
    EXPECT_LE(announcements, 6 * members_and_steps);  // rounds of 3 s, looks every 250 ms
}

// The slow peer's averages come when the others have voted already: certificates are brief for it,
// too.
TEST(VirtualRun, the_one_with_the_slowest_line_gets_no_decision_twice) {
    VirtualRunOptions options = small_run(false);
    options.machines.back().line.down_bytes_per_s /= 2;
    std::map<std::string, int> sent = messages_of(options);
    EXPECT_GE(sent[consensus::certified_method], static_cast<int>(2 * options.steps));
    // While the first ones are no voters yet.
    EXPECT_LE(sent[consensus::certificate_method], 6);
}

// A round that takes three batches: nobody computes further ahead than one.
TEST(VirtualRun, nothing_gets_older_than_one_step_when_rounds_are_slow) {
    VirtualRunOptions options = small_run(true);
    for (VirtualMachine& machine : options.machines) machine.line = machine.line.times(1.0 / 3);
    const auto result = run_virtually(options);
    ASSERT_TRUE(result) << result.error().message();
    EXPECT_TRUE(result->identical);
    EXPECT_LT(result->compute_share, 0.6);
    for (const BookedStep& step : result->steps) EXPECT_LE(step.samples, 256 * 1.4) << step.step;
}

TEST(VirtualRun, a_delayed_update_lives_with_trainers_that_come_and_go) {
    VirtualRunOptions options = small_run(true);
    for (int i = 0; i < 2; ++i) {
        VirtualMachine guest = options.machines.front();
        guest.line = guest.line.times(4);
        guest.joins_at = 5s + 4s * i;
        guest.stays = 25s;
        guest.away = 8s;
        options.machines.push_back(guest);
    }
    options.steps = 25;
    const auto result = run_virtually(options);
    ASSERT_TRUE(result) << result.error().message();
    EXPECT_TRUE(result->identical);
    std::size_t most = 0;
    for (const BookedStep& step : result->steps) most = std::max(most, step.members);
    EXPECT_GT(most, 4u);
}

// Samples that are computed and not in the model at the end are of the batch under way; a machine
// that dies may take with it those that it had for one step.
TEST(VirtualRun, a_machine_that_is_taken_loses_a_step_at_most_and_nothing_with_a_notice) {
    for (const Duration notice : {Duration(20s), Duration(0)}) {
        VirtualRunOptions options = small_run(false);
        options.steps = 20;
        options.machines[1].absences = {{.from = 12s, .notice = notice, .until = 40s},
                                        {.from = 70s, .notice = notice, .until = 95s}};
        const auto result = run_virtually(options);
        ASSERT_TRUE(result) << result.error().message();
        EXPECT_TRUE(result->identical);
        const double outside = static_cast<double>(result->samples_computed) - samples_in(*result);
        const double batch = static_cast<double>(options.run.batch.target);
        EXPECT_LE(outside, notice > Duration(0) ? batch : 1.5 * batch);
        EXPECT_EQ(result->samples_expired, 0);
        std::size_t least = options.machines.size();
        for (const BookedStep& step : result->steps) least = std::min(least, step.members);
        EXPECT_EQ(least, 3u);                         // it was away
        EXPECT_EQ(result->steps.back().members, 4u);  // and is back
    }
}

// Neither the wish for the round before, nor a leaver's, nor a status from before the step makes a
// round begin with what little is there.
TEST(VirtualRun, every_step_has_a_whole_batch_whoever_comes_and_goes) {
    VirtualRunOptions options = small_run(false);
    VirtualMachine guest = options.machines.front();
    guest.line = guest.line.times(4);
    guest.stays = 25s;
    guest.away = 8s;
    for (int i = 0; i < 3; ++i) {
        guest.joins_at = 5s + 4s * i;
        options.machines.push_back(guest);
    }
    VirtualMachine aggregator;
    aggregator.aggregates = true;
    options.machines.push_back(aggregator);
    options.steps = 20;
    const auto result = run_virtually(options);
    ASSERT_TRUE(result) << result.error().message();
    EXPECT_TRUE(result->identical);
    for (const BookedStep& step : result->steps) EXPECT_GE(step.samples, 256 * 0.6) << step.step;
}

double round_s(const VirtualResult& result) {
    double sum = 0;
    for (std::size_t i = 2; i < result.steps.size(); ++i) sum += result.steps[i].round_s;
    return sum / static_cast<double>(result.steps.size() - 2);
}

// One line is four times as slow as the others. Balanced, it has hardly time for its own
// contribution and average, 80 kB: 3.4 s; with equal parts it must move 1.5 times that.
TEST(VirtualRun, parts_by_rates_are_faster_than_equal_ones_and_an_aggregator_helps) {
    VirtualRunOptions options = small_run(false);
    options.steps = 8;
    for (VirtualMachine& machine : options.machines) machine.line = machine.line.times(4);
    options.machines.back().line = options.machines.back().line.times(1.0 / 4);
    const auto balanced = run_virtually(options);
    options.equal_parts = true;
    const auto equal = run_virtually(options);
    ASSERT_TRUE(balanced) << balanced.error().message();
    ASSERT_TRUE(equal) << equal.error().message();
    EXPECT_LT(round_s(*balanced), round_s(*equal) * 0.85);

    options = small_run(false);
    options.steps = 8;
    const auto alone = run_virtually(options);
    VirtualMachine aggregator;
    aggregator.aggregates = true;
    options.machines.push_back(aggregator);
    const auto helped = run_virtually(options);
    ASSERT_TRUE(alone) << alone.error().message();
    ASSERT_TRUE(helped) << helped.error().message();
    EXPECT_TRUE(helped->identical);
    EXPECT_EQ(alone->rounds_of_aggregators, 0u);
    EXPECT_GE(helped->rounds_of_aggregators, 6u);
    EXPECT_LT(round_s(*helped), round_s(*alone) * 0.85);
    for (const BookedStep& step : helped->steps) EXPECT_LE(step.members, 4u);
}

// Seconds from one step to the next, over the last `count` steps.
double step_s(const VirtualResult& result, std::size_t count) {
    const std::size_t first = result.steps.size() - 1 - count;
    return (result.steps.back().at_s - result.steps[first].at_s) / static_cast<double>(count);
}

// A batch takes seven trainers 2.3 s, a round on six of the lines less than 1 s, and the seventh
// 15 s for its own contribution.
TEST(VirtualRun, a_line_that_is_too_slow_for_what_it_brings_is_not_waited_for) {
    VirtualRunOptions options = small_run(false);
    options.machines.assign(7, options.machines.front());
    for (VirtualMachine& machine : options.machines) machine.line = machine.line.times(4);
    options.machines.back().line.up_bytes_per_s /= 40;
    options.run.averaging.round_deadline_min = 1s;
    options.steps = 24;
    const auto without = run_virtually(options);
    options.run.averaging.leave_out_slow = false;
    const auto with = run_virtually(options);
    ASSERT_TRUE(without) << without.error().message();
    ASSERT_TRUE(with) << with.error().message();
    EXPECT_TRUE(without->identical);
    EXPECT_GT(step_s(*with, 12), 12);
    EXPECT_LT(step_s(*without, 12), 5);
    // The slow peer still gets the averages as they are made, and it computes no more than it must
    // to try.
    EXPECT_EQ(without->steps.back().members, 7u);
    const double left_out =
        without->samples_expired + static_cast<double>(without->samples_dropped);
    EXPECT_LT(left_out, 0.05 * static_cast<double>(without->samples_computed));
}

// Nor is one waited for that cannot even take the averages.
TEST(VirtualRun, who_cannot_keep_up_with_rounds_follows_by_itself) {
    VirtualRunOptions options = small_run(false);
    options.machines.assign(7, options.machines.front());
    for (VirtualMachine& machine : options.machines) machine.line = machine.line.times(4);
    options.machines.back().line = options.machines.back().line.times(1.0 / 12);
    options.run.averaging.round_deadline_min = 1s;
    options.steps = 24;
    const auto result = run_virtually(options);
    ASSERT_TRUE(result) << result.error().message();
    EXPECT_TRUE(result->identical);
    EXPECT_LT(step_s(*result, 12), 5);
    EXPECT_EQ(result->steps.back().members, 6u);
}

// Sixteen trainers in one group, and in four groups of four: two hops each way, and fp32 sums of a
// quarter of the vector, of which a quarter stays.
TEST(VirtualRun, a_grid_is_as_exact_as_one_group_and_not_much_slower) {
    VirtualRunOptions options = small_run(false);
    options.machines.assign(16, options.machines.front());
    options.run.batch.target = 1024;
    options.steps = 8;
    const auto one_group = run_virtually(options);
    options.run.averaging.group_max = 4;
    const auto grid = run_virtually(options);
    ASSERT_TRUE(one_group) << one_group.error().message();
    ASSERT_TRUE(grid) << grid.error().message();
    EXPECT_TRUE(grid->identical);
    EXPECT_EQ(grid->samples_expired, 0);
    EXPECT_NEAR(samples_in(*grid) / samples_in(*one_group), 1.0, 0.02);
    EXPECT_LT(grid->steps[7].loss, grid->steps[1].loss * 0.8);
    EXPECT_NEAR(grid->steps[7].loss, one_group->steps[7].loss, 0.1 * one_group->steps[1].loss);
    EXPECT_LT(round_s(*grid), round_s(*one_group) * 1.15);
}

// A host and seven trainers behind routers: three groups would need three that may own parts.
TEST(VirtualRun, more_than_a_group_holds_average_in_one_where_too_few_can_be_dialled_for_a_grid) {
    VirtualRunOptions options = small_run(false);
    VirtualMachine behind_router = options.machines.front();
    behind_router.dialable = false;
    options.machines.assign(8, behind_router);
    options.machines.front().dialable = true;
    options.machines.front().line = options.machines.front().line.times(7);
    options.run.averaging.group_max = 3;
    options.steps = 4;
    const auto result = run_virtually(options);
    ASSERT_TRUE(result) << result.error().message();
    EXPECT_TRUE(result->identical);
    for (std::size_t i = 1; i < result->steps.size(); ++i)
        EXPECT_EQ(result->steps[i].members, 8u) << "step " << i;
}

// Samples a second in steps after the first few, with so many ghosts: each has a key of its own,
// comes with a step, and has left by the next one.
double speed_with_ghosts(std::size_t ghosts, bool robust) {
    constexpr std::uint64_t first_ghost_at = 4;
    VirtualRunOptions options = small_run(false);
    options.make_learner = [](const PeerId& peer) { return make_bowl(1000, peer); };
    options.run.batch.target = 64;
    options.run.averaging.round_deadline_min = 5s;
    options.steps = first_ghost_at + 60;
    if (robust) options.run.robust.emplace().trust_after = 0;
    VirtualMachine ghost = options.machines.front();
    ghost.claims_s = 1;
    for (std::size_t i = 0; i < ghosts; ++i) {
        ghost.from_step = first_ghost_at + i;
        ghost.until_step = ghost.from_step + 1;
        options.machines.push_back(ghost);
    }
    const auto result = run_virtually(options);
    EXPECT_TRUE(result) << result.error().message();
    if (!result) return 0;
    double samples = 0;
    double from_s = 0;
    for (const BookedStep& step : result->steps) {
        if (step.step <= first_ghost_at) from_s = step.at_s;
        if (step.step > first_ghost_at) samples += step.samples;
    }
    return samples / (result->steps.back().at_s - from_s);
}

// Plans that wait for time and samples that nobody brings.
TEST(VirtualRun, a_ghost_with_a_new_key_a_step_takes_little_of_the_speed) {
    for (const bool robust : {false, true}) {
        const double alone = speed_with_ghosts(0, robust);
        const double with_ghosts = speed_with_ghosts(60, robust);
        RecordProperty(robust ? "speed_kept_robust" : "speed_kept",
                       std::to_string(with_ghosts / alone));
        EXPECT_GT(with_ghosts, 0.3 * alone) << alone << (robust ? ", a robust run" : "");
    }
}

}  // namespace
}  // namespace dedloc::lab
