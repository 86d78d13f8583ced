// Each mistake that can be planted in the rules of voting must be found by this torture.

#include "tests/sim/consensus_torture.h"

#include <gtest/gtest.h>
#include <optional>

namespace dedloc::lab {
namespace {

using consensus::PlantedBugs;

TEST(ConsensusTorture, at_most_one_decision_is_certified) {
    std::uint64_t decided = 0;
    constexpr std::uint64_t histories = 20000;
    for (std::uint64_t seed = 1; seed <= histories; ++seed) {
        const TortureOutcome outcome = torture_consensus(seed, {});
        ASSERT_LE(outcome.certified, 1u) << "seed " << seed;
        decided += outcome.certified;
    }
    // A test in which nothing is ever decided shows nothing.
    EXPECT_GT(decided, histories / 3);
}

void expect_found(PlantedBugs bugs) {
    constexpr std::uint64_t bound = 20000;
    for (std::uint64_t seed = 1; seed <= bound; ++seed) {
        if (torture_consensus(seed, bugs).certified < 2) continue;
        ::testing::Test::RecordProperty("found_by_seed", static_cast<int>(seed));
        return;
    }
    ADD_FAILURE() << "not found in " << bound << " histories";
}

TEST(ConsensusTorture, finds_votes_that_are_not_written) {
    PlantedBugs bugs;
    bugs.forget_votes = true;
    expect_found(bugs);
}

TEST(ConsensusTorture, finds_promises_that_are_ignored) {
    PlantedBugs bugs;
    bugs.ignore_promises = true;
    expect_found(bugs);
}

TEST(ConsensusTorture, finds_a_successor_that_does_not_ask) {
    PlantedBugs bugs;
    bugs.skip_prepare = true;
    expect_found(bugs);
}

TEST(ConsensusTorture, finds_minorities_that_certify) {
    PlantedBugs bugs;
    bugs.minority_commits = true;
    expect_found(bugs);
}

TEST(ConsensusTorture, finds_votes_without_memory) {
    PlantedBugs bugs;
    bugs.vote_without_memory = true;
    expect_found(bugs);
}

}  // namespace
}  // namespace dedloc::lab
