#include "dedloc/dht/table_clock.h"

#include <gtest/gtest.h>

#include "dedloc/sim/world.h"

namespace dedloc::dht {
namespace {

struct Computers {
    Computers() {
        for (const auto skew : {0s, -20s, 0s, 3600s}) {
            sim::NodeOptions options;
            options.wall_skew = skew;
            nodes.push_back(&world.add_node(options));
            clocks.push_back(std::make_unique<TableClock>(nodes.back()->clock()));
        }
    }
    // The computers in `who` hear of each other.
    void meet(const std::vector<std::size_t>& who) {
        for (const std::size_t i : who)
            for (const std::size_t j : who)
                if (i != j)
                    clocks[i]->heard(nodes[j]->id(),
                                     nodes[j]->clock().wall_now() - nodes[i]->clock().wall_now());
        for (const std::size_t i : who) clocks[i]->agree();
    }

    sim::World world{1};
    std::vector<sim::SimNode*> nodes;
    std::vector<std::unique_ptr<TableClock>> clocks;
};

TEST(TableClock, computers_agree_whatever_their_clocks_show) {
    for (const std::vector<std::size_t>& who :
         {std::vector<std::size_t>{0, 1}, {1, 3}, {0, 1, 2}, {0, 1, 2, 3}}) {
        Computers computers;
        computers.meet(who);
        computers.world.run_for(10s);
        for (const std::size_t i : who)
            EXPECT_NEAR(computers.clocks[i]->now(), computers.clocks[who[0]]->now(), 1e-3);
    }
}

TEST(TableClock, most_decide_and_of_two_the_later) {
    Computers computers;
    EXPECT_NEAR(computers.clocks[1]->difference(), 0, 1e-9);
    computers.meet({0, 1});
    EXPECT_NEAR(computers.clocks[0]->difference(), 0, 1e-3);
    EXPECT_NEAR(computers.clocks[1]->difference(), 20, 1e-3);
    computers.meet({0, 1, 2, 3});
    EXPECT_NEAR(computers.clocks[0]->difference(), 0, 1e-3);
    EXPECT_NEAR(computers.clocks[3]->difference(), -3600, 1e-3);
}

TEST(TableClock, a_clock_that_is_set_does_not_move_it) {
    Computers computers;
    computers.meet({0, 1, 2});
    const WallSeconds before = computers.clocks[0]->now();
    computers.nodes[0]->step_wall_clock(500s);
    EXPECT_NEAR(computers.clocks[0]->now(), before, 1e-3);
    computers.meet({0, 1, 2});
    EXPECT_NEAR(computers.clocks[0]->now(), before, 1e-3);
}

TEST(TableClock, old_answers_and_too_many_are_forgotten) {
    Computers computers;
    computers.clocks[0]->heard(computers.nodes[3]->id(), 1e300 * 1e300);
    computers.clocks[0]->agree();
    EXPECT_NEAR(computers.clocks[0]->difference(), 0, 1e-9);
    for (std::size_t i = 0; i < TableClock::peers_heard_max; ++i)
        computers.clocks[0]->heard(computers.world.add_node().id(), 100);
    computers.world.run_for(1s);
    for (std::size_t i = 0; i < TableClock::peers_heard_max; ++i)
        computers.clocks[0]->heard(computers.world.add_node().id(), 50);
    computers.clocks[0]->agree();
    EXPECT_NEAR(computers.clocks[0]->difference(), 50, 1e-3);
    computers.world.run_for(TableClock::heard_for + 1s);
    computers.clocks[0]->heard(computers.nodes[2]->id(), 0);
    computers.clocks[0]->agree();
    EXPECT_NEAR(computers.clocks[0]->difference(), 0, 1e-3);
}

}  // namespace
}  // namespace dedloc::dht
