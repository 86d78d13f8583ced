#include "dedloc/robust/checks.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <set>

namespace dedloc::robust {
namespace {

Digest check_seed(std::uint32_t number) {
    Bytes bytes(32, 1);
    for (int i = 0; i < 4; ++i) bytes[i] = static_cast<std::uint8_t>(number >> (8 * i));
    return Digest::from(bytes).value();
}

std::vector<Checkable> sixteen(double chance) {
    const Checkable one{.speed = 10, .contributes = true, .chance = chance};
    return std::vector<Checkable>(16, one);
}

TEST(Checks, AreTheSameForEverybodyAndDifferFromStepToStep) {
    const auto members = sixteen(1.0 / 16);
    EXPECT_EQ(assign_checks(check_seed(1), members), assign_checks(check_seed(1), members));
    std::set<std::uint32_t> targets;
    for (std::uint32_t step = 0; step < 200; ++step)
        for (const CheckAssignment& job : assign_checks(check_seed(step), members))
            targets.insert(job.target);
    EXPECT_EQ(targets.size(), 16u);
}

TEST(Checks, RecomputeTheFractionThatTheRunSays) {
    const auto members = sixteen(0.1);
    std::size_t jobs = 0;
    for (std::uint32_t step = 0; step < 1000; ++step)
        jobs += assign_checks(check_seed(step), members).size();
    EXPECT_NEAR(static_cast<double>(jobs), 1600, 100);
}

TEST(Checks, NobodyChecksItselfAndNobodyHasTwoJobsWhileOthersHaveNone) {
    const auto members = sixteen(0.5);
    for (std::uint32_t step = 0; step < 100; ++step) {
        std::set<std::uint32_t> validators;
        for (const CheckAssignment& job : assign_checks(check_seed(step), members)) {
            EXPECT_NE(job.validator, job.target);
            EXPECT_TRUE(validators.insert(job.validator).second);
        }
        EXPECT_EQ(validators.size(), 8u);
    }
}

TEST(Checks, FastPeersValidateMore) {
    auto members = sixteen(1.0 / 16);
    members[3].speed = 100;
    std::size_t of_the_fast_one = 0;
    std::size_t all = 0;
    for (std::uint32_t step = 0; step < 1000; ++step)
        for (const CheckAssignment& job : assign_checks(check_seed(step), members)) {
            ++all;
            if (job.validator == 3) ++of_the_fast_one;
        }
    EXPECT_NEAR(static_cast<double>(of_the_fast_one) / static_cast<double>(all),
                100.0 / 250 * 15 / 16,
                0.06);
}

TEST(Checks, ThoseOnProbationAreAlwaysCheckedAndNeverCheck) {
    auto members = sixteen(1.0 / 16);
    members[5] = members[6] = {.speed = 0, .contributes = true, .always = true};
    for (std::uint32_t step = 0; step < 100; ++step) {
        const auto jobs = assign_checks(check_seed(step), members);
        for (const std::uint32_t newcomer : {5u, 6u}) {
            EXPECT_TRUE(std::ranges::any_of(
                jobs, [&](const CheckAssignment& job) { return job.target == newcomer; }));
            EXPECT_TRUE(std::ranges::none_of(
                jobs, [&](const CheckAssignment& job) { return job.validator == newcomer; }));
        }
    }
}

// A young key is, and lies of it are found at once.
TEST(Checks, AreOfEachMemberWithTheChanceThatItHas) {
    auto members = sixteen(1.0 / 16);
    members[2].chance = 1;
    members[9].chance = 0.5;
    std::size_t of_nine = 0;
    std::size_t of_ten = 0;
    for (std::uint32_t step = 0; step < 1000; ++step) {
        const auto jobs = assign_checks(check_seed(step), members);
        const auto is_checked = [&](std::uint32_t member) {
            return std::ranges::find(jobs, member, &CheckAssignment::target) != jobs.end();
        };
        EXPECT_TRUE(is_checked(2));
        if (is_checked(9)) ++of_nine;
        if (is_checked(10)) ++of_ten;
    }
    EXPECT_NEAR(static_cast<double>(of_nine), 500, 60);
    EXPECT_NEAR(static_cast<double>(of_ten), 62, 30);
}

// Where all keys are young, nobody could train for checking.
TEST(Checks, TakeAtMostHalfOfTheWork) {
    auto members = sixteen(1);
    for (Checkable& member : members) member.work = 1;
    limit_chances(members, 1.0 / 16);
    std::size_t jobs = 0;
    for (std::uint32_t step = 0; step < 100; ++step)
        jobs += assign_checks(check_seed(step), members).size();
    EXPECT_NEAR(static_cast<double>(jobs), 800, 20);
}

TEST(Checks, OfOneYoungKeyAmongOldOnesAreMadeInEachStep) {
    auto members = sixteen(1.0 / 16);
    for (Checkable& member : members) member.work = 1;
    members[2].chance = 1;
    limit_chances(members, 1.0 / 16);
    EXPECT_EQ(members[2].chance, 1);
    EXPECT_EQ(members[3].chance, 1.0 / 16);
}

TEST(Checks, WhereOnePeerIsTrustedItChecksAllOthers) {
    std::vector<Checkable> members(4, Checkable{.contributes = true, .always = true});
    members[0] = {.speed = 10, .contributes = true};
    const auto jobs = assign_checks(check_seed(1), members);
    ASSERT_EQ(jobs.size(), 3u);
    for (const CheckAssignment& job : jobs) EXPECT_EQ(job.validator, 0u);
}

TEST(Checks, WithoutAnybodyWhoCanThereAreNone) {
    const std::vector<Checkable> members(3, Checkable{.contributes = true, .chance = 1});
    EXPECT_TRUE(assign_checks(check_seed(1), members).empty());
    EXPECT_TRUE(assign_checks(check_seed(1), {}).empty());
}

}  // namespace
}  // namespace dedloc::robust
