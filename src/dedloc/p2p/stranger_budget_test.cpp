// Floods get a share of a second, and newcomers get in beside them.
#include "dedloc/p2p/stranger_budget.h"

#include <gtest/gtest.h>
#include <vector>

#include "dedloc/p2p/limits.h"

namespace dedloc::p2p {
namespace {

using Asker = StrangerBudget::Asker;
using Cost = StrangerBudget::Cost;

// Everybody asks again as soon as it may, for a minute.
struct Spent {
    Duration work{0};
    std::size_t bytes = 0;
};
Spent flood(StrangerBudget& budget, const std::vector<Asker>& askers, const Cost& question) {
    Spent spent;
    for (TimePoint now{1s}; now < TimePoint{61s}; now = now + 1ms) {
        for (const Asker& asker : askers) {
            if (budget.wait(asker, now) > Duration(0)) continue;
            budget.spend(asker, question, now);
            spent.work += question.work;
            spent.bytes += question.bytes;
        }
    }
    return spent;
}

std::string numbered_ip(int number) {
    return "198." + std::to_string(number / 256) + "." + std::to_string(number % 256) + ".1";
}

TEST(StrangerBudget, one_that_asks_a_little_never_waits) {
    StrangerBudget budget;
    const Asker asker{.peer = "one", .address = "203.0.113.7"};
    for (TimePoint now{1s}; now < TimePoint{61s}; now = now + 100ms) {
        EXPECT_EQ(budget.wait(asker, now), Duration(0));
        budget.spend(asker, {.work = 500us, .bytes = 500}, now);
    }
}

TEST(StrangerBudget, a_flood_of_one_peer_gets_its_share_of_a_second) {
    StrangerBudget budget;
    const auto spent =
        flood(budget, {{.peer = "one", .address = "203.0.113.7"}}, {.work = 300us, .bytes = 10});
    EXPECT_LT(spent.work, 1500ms);
    EXPECT_GT(spent.work, 600ms);
}

TEST(StrangerBudget, a_flood_from_five_hundred_networks_gets_less_than_a_twentieth_of_a_second) {
    StrangerBudget budget;
    std::vector<Asker> askers;
    for (int i = 0; i < 500; ++i)
        askers.push_back({.peer = std::to_string(i), .address = numbered_ip(i)});
    const auto spent = flood(budget, askers, {.work = 300us, .bytes = 10});
    EXPECT_LT(spent.work, 3500ms) << "a twentieth of a minute, and what is there at once";
}

TEST(StrangerBudget, long_answers_leave_most_of_a_slow_line_free) {
    StrangerBudget budget;
    std::vector<Asker> askers;
    for (int i = 0; i < 100; ++i)
        askers.push_back({.peer = std::to_string(i), .address = numbered_ip(i)});
    const auto spent = flood(budget, askers, {.work = 10us, .bytes = 4000});
    EXPECT_LT(spent.bytes / 60, 80'000u) << "an eighth of 5 Mb/s";
}

TEST(StrangerBudget, a_newcomer_goes_first_while_others_flood_its_own_network) {
    StrangerBudget budget;
    std::vector<Asker> askers;
    for (int i = 1; i < 200; ++i)
        askers.push_back({.peer = std::to_string(i), .address = "203.0.113." + std::to_string(i)});
    (void)flood(budget, askers, {.work = 300us, .bytes = 10});
    const TimePoint now{61s};
    EXPECT_GT(budget.wait(askers[3], now), Duration(0));
    const Asker newcomer{.peer = "honest", .address = "203.0.113.250"};
    EXPECT_LT(budget.wait(newcomer, now), 100ms);
    budget.spend(newcomer, {.work = 6ms}, now + 100ms);
    EXPECT_GT(budget.wait(newcomer, now + 100ms), 100ms) << "but not for long";
}

TEST(StrangerBudget, remembers_a_bounded_number) {
    StrangerBudget budget;
    const TimePoint now{1s};
    const Asker flooder{.peer = "flooder", .address = "203.0.113.7"};
    budget.spend(flooder, {.work = 1s}, now);
    for (int i = 0; i < 3 * static_cast<int>(stranger_meters_max); ++i)
        budget.spend({.peer = std::to_string(i), .address = numbered_ip(i)}, {.work = 1us}, now);
    EXPECT_GT(budget.wait(flooder, now), Duration(0)) << "who owes most is not forgotten";
}

}  // namespace
}  // namespace dedloc::p2p
