// The simulator's checkers must find what is put in by hand.

#include "tests/sim/checkers.h"

#include <gtest/gtest.h>

#include "tests/sim/hand_made_chain.h"

namespace dedloc::lab {
namespace {

class CheckersTest : public ::testing::Test {
  protected:
    CheckersTest() : checkers(verifier, hand_elements) {}

    void hand_in(std::size_t who, std::uint64_t begin, std::uint64_t end, float value) {
        HandedIn handed_in{{begin, end}, sum(value), chain.state(), TimePoint{1s}, {}};
        checkers.on_handed_in(chain.peer(who), std::move(handed_in));
    }
    static std::vector<float> sum(float value) { return std::vector<float>(hand_elements, value); }
    void show() {
        for (const Bytes& certificate : chain.certificates())
            checkers.on_certificate("a", certificate, TimePoint{2s});
    }
    void finish(bool undisturbed = true) {
        checkers.finish([=](const PeerId&, TimePoint, TimePoint) { return undisturbed; },
                        TimePoint{100s});
    }

    security::ToyVerifier verifier;
    HandMadeChain chain;
    Checkers checkers;
};

TEST_F(CheckersTest, a_sound_run_is_clean) {
    hand_in(0, 0, 4, 8.0f);
    hand_in(1, 0, 4, 16.0f);
    chain.commit({{0, fresh(0, 4)}, {1, fresh(0, 4)}}, {sum(8), sum(16)});
    show();
    finish();
    EXPECT_TRUE(checkers.clean()) << checkers.violations().front();
    EXPECT_EQ(checkers.averages_checked(), 2u);
}

TEST_F(CheckersTest, replicas_that_differ_are_found) {
    Digest one;
    Digest other;
    other.bytes[5] = 1;
    checkers.on_state("a", {}, 3, one, {});
    checkers.on_state("b", {}, 3, one, {});
    EXPECT_TRUE(checkers.clean());
    checkers.on_state("c", {}, 3, other, {});
    EXPECT_FALSE(checkers.clean());
}

TEST_F(CheckersTest, an_average_of_something_else_is_found) {
    hand_in(0, 0, 4, 8.0f);
    hand_in(1, 0, 4, 16.0f);
    chain.commit({{0, fresh(0, 4)}, {1, fresh(0, 4)}}, {sum(8), sum(15.999f)});
    show();
    EXPECT_FALSE(checkers.clean());
}

TEST_F(CheckersTest, an_average_in_another_codec_than_the_runs_is_found) {
    Checkers of_fp16(verifier, hand_elements, codec::CodecId::fp16);
    HandedIn handed_in{{0, 4}, sum(8), chain.state(), TimePoint{1s}, {}};
    of_fp16.on_handed_in(chain.peer(0), std::move(handed_in));
    chain.commit({{0, fresh(0, 4)}}, {sum(8)});
    for (const Bytes& certificate : chain.certificates())
        of_fp16.on_certificate("a", certificate, TimePoint{2s});
    ASSERT_FALSE(of_fp16.clean());
    EXPECT_NE(of_fp16.violations().front().find("another codec"), std::string::npos);
}

TEST_F(CheckersTest, samples_that_nobody_handed_in_are_found) {
    hand_in(0, 0, 4, 8.0f);
    chain.commit({{0, fresh(0, 5)}}, {sum(8)});
    show();
    EXPECT_FALSE(checkers.clean());
}

TEST_F(CheckersTest, samples_in_twice_are_found) {
    hand_in(0, 0, 4, 8.0f);
    chain.commit({{0, fresh(0, 4)}}, {sum(8)});
    chain.commit({{0, fresh(0, 4)}}, {sum(8)});
    show();
    finish();
    EXPECT_FALSE(checkers.clean());
}

TEST_F(CheckersTest, samples_computed_ahead_are_one_step_stale_and_no_more) {
    std::vector<Digest> states;
    std::uint64_t begin = 0;
    const auto step = [&](const Digest& ahead) {
        HandedIn handed_in{{begin, begin + 4}, sum(8), chain.state(), TimePoint{1s}, ahead};
        checkers.on_handed_in(chain.peer(0), std::move(handed_in));
        states.push_back(chain.state());
        chain.commit({{0, fresh(begin, begin + 4)}}, {sum(8)});
        begin += 4;
    };
    step({});
    step(states[0]);
    step(states[1]);
    show();
    finish();
    EXPECT_TRUE(checkers.clean()) << checkers.violations().front();
    step(states[1]);  // two steps stale
    show();
    finish();
    EXPECT_FALSE(checkers.clean());
}

TEST_F(CheckersTest, stale_samples_are_found) {
    hand_in(0, 0, 4, 8.0f);
    hand_in(1, 0, 4, 8.0f);
    chain.commit({{1, fresh(0, 4)}}, {sum(8)});
    chain.commit({{0, fresh(0, 4)}}, {sum(8)});  // computed one step ago, and said to be fresh
    show();
    finish();
    EXPECT_FALSE(checkers.clean());
}

TEST_F(CheckersTest, lost_samples_of_an_undisturbed_peer_are_found) {
    hand_in(0, 0, 4, 8.0f);
    hand_in(1, 0, 4, 8.0f);
    chain.commit({{1, fresh(0, 4)}}, {sum(8)});
    show();
    finish(/*undisturbed=*/false);
    EXPECT_TRUE(checkers.clean());
    finish(/*undisturbed=*/true);
    EXPECT_FALSE(checkers.clean());
    EXPECT_DOUBLE_EQ(checkers.samples_lost(), 4);
}

}  // namespace
}  // namespace dedloc::lab
