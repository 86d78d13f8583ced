// The leader is killed a moment after its plan and starts again at once. Its successor, or itself,
// then leads the step while most of the others still pass it over or ask another one: it has to
// wait for them rather than make a step of two. Without that, these seeds have steps of 2 of 9.

#include <gtest/gtest.h>
#include <limits>

#include "tests/sim/leader_faults_testing.h"

namespace dedloc::lab {
namespace {

constexpr TimePoint killed_from{12s};
constexpr Duration between_kills = 6s;

struct Killed {
    std::size_t kills = 0;
    std::size_t fewest = std::numeric_limits<std::size_t>::max();  // contributors of a step then
    SimulationResult result;
};

void kill_leaders(Killed& killed, sim::World& world, Duration after) {
    const auto next = std::make_shared<TimePoint>(killed_from);
    world.on_send([&killed, &world, after, next](const sim::World::Outgoing& sent) {
        if (!is_plan(sent) || world.now() < *next) return;
        *next = world.now() + between_kills;
        ++killed.kills;
        world.after(after, [&world, from = sent.from] { world.node(from).kill(); });
    });
}

Killed kill_after(std::uint64_t seed, std::size_t peers, Duration after) {
    Killed killed;
    sim::World* its_world = nullptr;
    SimulationOptions options = only_leaders_fail(seed, peers);
    options.prepare = [&](sim::World& world) {
        its_world = &world;
        kill_leaders(killed, world, after);
    };
    options.events = [&](std::size_t, const events::Event& event) {
        const auto* step = event.as<events::StepMade>();
        if (step != nullptr && its_world->now() >= killed_from)
            killed.fewest = std::min<std::size_t>(killed.fewest, step->contributors);
    };
    killed.result = simulate(options);
    return killed;
}

class KilledLeader : public testing::TestWithParam<std::uint64_t> {};

TEST_P(KilledLeader, leaves_no_step_to_a_few) {
    for (const std::size_t peers : {5u, 9u})
        for (const Duration after : {20ms, 80ms, 150ms, 220ms}) {
            const Killed killed = kill_after(GetParam(), peers, after);
            EXPECT_GE(killed.kills, 3u);
            EXPECT_FALSE(killed.result.failed())
                << testing::PrintToString(killed.result.violations);
            EXPECT_GE(killed.fewest * 2, peers)
                << peers << " peers, killed " << to_seconds(after) << " s after its plan";
        }
}

INSTANTIATE_TEST_SUITE_P(Seeds, KilledLeader, testing::Values(5, 12, 16, 19));

}  // namespace
}  // namespace dedloc::lab
