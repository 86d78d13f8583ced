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

std::vector<Checkable> sixteen() { return std::vector<Checkable>(16, Checkable{10, true, false}); }

TEST(Checks, AreTheSameForEverybodyAndDifferFromStepToStep) {
    const auto members = sixteen();
    EXPECT_EQ(assign_checks(check_seed(1), members, 0.25),
              assign_checks(check_seed(1), members, 0.25));
    std::set<std::uint32_t> targets;
    for (std::uint32_t step = 0; step < 200; ++step)
        for (const CheckJob& job : assign_checks(check_seed(step), members, 1.0 / 16))
            targets.insert(job.target);
    EXPECT_EQ(targets.size(), 16u);
}

TEST(Checks, RecomputeTheFractionThatTheRunSays) {
    const auto members = sixteen();
    std::size_t jobs = 0;
    for (std::uint32_t step = 0; step < 1000; ++step)
        jobs += assign_checks(check_seed(step), members, 0.1).size();
    EXPECT_NEAR(static_cast<double>(jobs), 1600, 100);
}

TEST(Checks, NobodyChecksItselfAndNobodyHasTwoJobsWhileOthersHaveNone) {
    const auto members = sixteen();
    for (std::uint32_t step = 0; step < 100; ++step) {
        std::set<std::uint32_t> validators;
        for (const CheckJob& job : assign_checks(check_seed(step), members, 0.5)) {
            EXPECT_NE(job.validator, job.target);
            EXPECT_TRUE(validators.insert(job.validator).second);
        }
        EXPECT_EQ(validators.size(), 8u);
    }
}

TEST(Checks, FastPeersValidateMore) {
    auto members = sixteen();
    members[3].speed = 100;
    std::size_t of_the_fast_one = 0;
    std::size_t all = 0;
    for (std::uint32_t step = 0; step < 1000; ++step)
        for (const CheckJob& job : assign_checks(check_seed(step), members, 1.0 / 16)) {
            ++all;
            if (job.validator == 3) ++of_the_fast_one;
        }
    EXPECT_NEAR(static_cast<double>(of_the_fast_one) / static_cast<double>(all),
                100.0 / 250 * 15 / 16,
                0.06);
}

TEST(Checks, ThoseOnProbationAreAlwaysCheckedAndNeverCheck) {
    auto members = sixteen();
    members[5].always = members[6].always = true;
    for (std::uint32_t step = 0; step < 100; ++step) {
        const auto jobs = assign_checks(check_seed(step), members, 1.0 / 16);
        for (const std::uint32_t newcomer : {5u, 6u}) {
            EXPECT_TRUE(std::ranges::any_of(
                jobs, [&](const CheckJob& job) { return job.target == newcomer; }));
            EXPECT_TRUE(std::ranges::none_of(
                jobs, [&](const CheckJob& job) { return job.validator == newcomer; }));
        }
    }
}

TEST(Checks, WhereOnePeerIsTrustedItChecksAllOthers) {
    std::vector<Checkable> members(4, Checkable{10, true, true});
    members[0].always = false;
    const auto jobs = assign_checks(check_seed(1), members, 0);
    ASSERT_EQ(jobs.size(), 3u);
    for (const CheckJob& job : jobs) EXPECT_EQ(job.validator, 0u);
}

TEST(Checks, WithoutAnybodyWhoCanThereAreNone) {
    const std::vector<Checkable> members(3, Checkable{0, true, false});
    EXPECT_TRUE(assign_checks(check_seed(1), members, 1).empty());
    EXPECT_TRUE(assign_checks(check_seed(1), {}, 1).empty());
}

}  // namespace
}  // namespace dedloc::robust
