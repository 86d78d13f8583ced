#include "dedloc/planner/left_out.h"

#include <gtest/gtest.h>

namespace dedloc::planner {
namespace {

// A vector of 100 elements.
class LeftOut : public ::testing::Test {
  protected:
    void add(double upload, double download, double samples, Candidate candidate = Candidate::yes) {
        peers_.push_back({.upload_per_s = upload, .download_per_s = download});
        samples_.push_back(samples);
        candidates_.push_back(candidate);
    }
    LeaveOutAnswer choose(double computing_s, double worth_it = 1) const {
        auto answer = choose_left_out({.peers = peers_,
                                       .samples = samples_,
                                       .candidates = candidates_,
                                       .elements_count = 100,
                                       .computing_s = computing_s,
                                       .delayed = delayed_,
                                       .worth_it = worth_it});
        EXPECT_TRUE(answer.has_value());
        return std::move(answer).value_or(LeaveOutAnswer{});
    }

    bool delayed_ = false;
    std::vector<PeerRates> peers_;
    std::vector<double> samples_;
    std::vector<Candidate> candidates_;
};

TEST_F(LeftOut, NobodyIsWhereAllLinesAreAlike) {
    for (int i = 0; i < 8; ++i) add(100, 100, 10);
    const LeaveOutAnswer answer = choose(0.001);
    EXPECT_FALSE(answer.leaves_out());
    EXPECT_EQ(answer.parts, std::vector<Part>(8, Part::whole));
}

TEST_F(LeftOut, ASlowUploadKeepsItsOwnerFromContributingButNotFromReceiving) {
    for (int i = 0; i < 4; ++i) add(100, 100, 10);
    add(1, 100, 10);
    const LeaveOutAnswer answer = choose(10);
    ASSERT_TRUE(answer.leaves_out());
    EXPECT_NEAR(answer.seconds_of_all, 100, 1e-6);
    EXPECT_EQ(answer.parts[4], Part::receives);
    EXPECT_LT(answer.seconds, 3);
}

TEST_F(LeftOut, ASlowDownloadKeepsItsOwnerOutOfTheRound) {
    for (int i = 0; i < 4; ++i) add(100, 100, 10);
    add(100, 1, 10);
    const LeaveOutAnswer answer = choose(10);
    ASSERT_TRUE(answer.leaves_out());
    EXPECT_EQ(answer.parts[4], Part::none);
}

// A round of 82 s that is hidden behind 102 s of computing costs nothing.
TEST_F(LeftOut, NobodyIsWhoseLineIsHiddenBehindComputing) {
    for (int i = 0; i < 7; ++i) add(4, 20, 10);
    add(1, 10, 10);
    ASSERT_TRUE(choose(20).leaves_out());
    delayed_ = true;
    const LeaveOutAnswer hidden = choose(200);
    EXPECT_FALSE(hidden.leaves_out());
    EXPECT_TRUE(choose(20).leaves_out()) << "the round is what takes long";
}

TEST_F(LeftOut, WhoMustReceiveDoes) {
    for (int i = 0; i < 4; ++i) add(100, 100, 10);
    add(1, 1, 10, Candidate::if_it_receives);
    EXPECT_FALSE(choose(10).leaves_out());  // the round would be as long without its gradient
}

TEST_F(LeftOut, LongComputingMakesASlowLineWorthWaitingFor) {
    for (int i = 0; i < 4; ++i) add(100, 100, 10);
    add(1, 100, 10);
    EXPECT_TRUE(choose(10).leaves_out());
    EXPECT_FALSE(choose(10'000).leaves_out());
}

TEST_F(LeftOut, ManySamplesMakeASlowLineWorthWaitingFor) {
    for (int i = 0; i < 4; ++i) add(100, 100, 1);
    add(1, 100, 1000);
    EXPECT_FALSE(choose(10).leaves_out());
}

TEST_F(LeftOut, SeveralSlowLinesAreLeftOutTogether) {
    for (int i = 0; i < 6; ++i) add(100, 100, 10);
    for (int i = 0; i < 5; ++i) add(1, 100, 10);
    const LeaveOutAnswer answer = choose(1);
    ASSERT_TRUE(answer.leaves_out());
    for (std::size_t i = 6; i < 11; ++i) EXPECT_EQ(answer.parts[i], Part::receives) << i;
}

TEST_F(LeftOut, WhoIsNoCandidateStays) {
    for (int i = 0; i < 4; ++i) add(100, 100, 10);
    add(1, 100, 10, Candidate::no);
    EXPECT_FALSE(choose(10).leaves_out());
}

TEST_F(LeftOut, TwoTrainAlwaysTogether) {
    add(100, 100, 1000);
    add(1, 1, 1);
    EXPECT_FALSE(choose(0.001).leaves_out());
}

TEST_F(LeftOut, NoPlanIsWithoutHalfOfTheSamples) {
    for (int i = 0; i < 3; ++i) add(100, 100, 10);
    for (int i = 0; i < 5; ++i) add(1, 100, 10);
    EXPECT_FALSE(choose(1).leaves_out()) << "three of eight, however fast";
    add(100, 100, 20);
    EXPECT_TRUE(choose(1).leaves_out()) << "half of it";
}

TEST_F(LeftOut, AGainBelowTheAskedOneIsNotWorthALoss) {
    for (int i = 0; i < 4; ++i) add(100, 100, 10);
    add(20, 100, 10);
    ASSERT_TRUE(choose(5).leaves_out());
    EXPECT_FALSE(choose(5, /*worth_it=*/1.5).leaves_out());
}

TEST_F(LeftOut, ANetworkThatAveragesNothingLeavesNobodyOut) {
    add(0, 100, 10);
    add(100, 100, 10);
    add(100, 100, 10);
    EXPECT_FALSE(choose(10).leaves_out());
}

}  // namespace
}  // namespace dedloc::planner
