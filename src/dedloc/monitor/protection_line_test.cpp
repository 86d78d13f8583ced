#include "dedloc/monitor/protection_line.h"

#include <gtest/gtest.h>

#include "dedloc/security/toy_signature.h"

namespace dedloc::monitor {
namespace {

class ProtectionLineTest : public testing::Test {
  protected:
    template <typename Kind>
    void happens(Kind kind, const PeerId& peer = {}) {
        events::Event event;
        event.what = std::move(kind);
        event.peer = peer;
        line_.add(event);
    }
    void step_with(std::uint64_t at_work) {
        events::StepMade made;
        made.at_work = at_work;
        happens(made);
    }
    std::string text() const { return line_.line(names_); }

    ProtectionLine line_;
    events::PeerNames names_;
    PeerId bob_ = security::toy_peer_id(1);
};

TEST_F(ProtectionLineTest, says_nothing_of_a_run_that_is_not_robust) {
    happens(events::StepMade{});
    EXPECT_EQ(text(), "");
}

TEST_F(ProtectionLineTest, says_that_a_small_run_is_not_protected_yet) {
    step_with(2);
    EXPECT_EQ(text(), "not protected yet: 2 of 3 peers at work");
    step_with(3);
    EXPECT_EQ(text(), "protected: 3 peers at work");
}

TEST_F(ProtectionLineTest, tells_how_far_newcomers_have_come) {
    step_with(4);
    names_.set_name(bob_, "bob");
    happens(events::NewcomerRight{.right = 2, .needed = 3}, bob_);
    EXPECT_EQ(text(), "protected: 4 peers at work; bob is new: 2 of 3 checks right");
    happens(events::NewcomerRight{.right = 3, .needed = 3}, bob_);
    EXPECT_EQ(text(), "protected: 4 peers at work");
    happens(events::NewcomerRight{.right = 1, .needed = 3, .about_us = 1}, bob_);
    EXPECT_EQ(text(), "protected: 4 peers at work; we are new: 1 of 3 checks right");
}

TEST_F(ProtectionLineTest, tells_of_bans_and_of_checks) {
    step_with(4);
    names_.set_name(bob_, "bob");
    happens(events::CheckMade{.checks = 12});
    happens(events::OrderGiven{.order = "banned"}, bob_);
    EXPECT_EQ(text(), "protected: 4 peers at work; banned: bob; 12 checks made here");
    EXPECT_EQ(line_.standing(names_), "protected: 4 peers at work; banned: bob");
}

TEST_F(ProtectionLineTest, has_a_line_for_each_ban_with_what_it_rests_on) {
    const PeerId eve = security::toy_peer_id(2);
    names_.set_name(bob_, "bob");
    names_.set_name(eve, "eve");
    const std::string digest(64, 'a');
    happens(
        events::OrderGiven{.order = "banned", .offence = "a wrong gradient", .evidence = digest},
        bob_);
    happens(events::OrderGiven{.order = "on probation"}, security::toy_peer_id(3));
    happens(events::OrderGiven{.order = "eliminated"}, eve);
    const std::vector<std::string> bans = line_.bans(names_);
    ASSERT_EQ(bans.size(), 2u);
    EXPECT_EQ(bans[0], "eliminated: eve at step 0");
    EXPECT_EQ(bans[1], "banned: bob at step 0: a wrong gradient (evidence aaaaaaaaaaaa)");
    EXPECT_TRUE(line_.has_banned(bob_));
    happens(events::OrderEnded{.order = "banned"}, bob_);
    EXPECT_FALSE(line_.has_banned(bob_));
    EXPECT_EQ(line_.bans(names_).size(), 1u);
}

TEST_F(ProtectionLineTest, a_ban_of_ours_is_said_to_us_and_many_are_few_lines) {
    happens(events::OrderGiven{.order = "banned", .about_us = 1}, bob_);
    EXPECT_EQ(line_.bans(names_).front(), "banned: you at step 0");
    for (std::uint64_t stranger = 2; stranger < 100; ++stranger)
        happens(events::OrderGiven{.order = "banned"}, security::toy_peer_id(stranger));
    EXPECT_EQ(line_.bans(names_).size(), ProtectionLine::bans_told_max);
}

TEST_F(ProtectionLineTest, stays_one_line_however_many_strangers_come) {
    step_with(4);
    for (std::uint64_t stranger = 2; stranger < 100; ++stranger)
        happens(events::NewcomerRight{.right = 1, .needed = 3}, security::toy_peer_id(stranger));
    EXPECT_LT(text().size(), 200u) << text();
}

}  // namespace
}  // namespace dedloc::monitor
