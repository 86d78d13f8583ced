#include "dedloc/cli/serve_words.h"

#include <gtest/gtest.h>

#include "dedloc/security/identity.h"

namespace dedloc::cli {
namespace {

TEST(ServeWords, a_server_without_experts_says_why) {
    collab::ExpertReport report;
    report.keeps = 7;
    EXPECT_NE(why_idle(report, 4).find("looks who serves"), std::string::npos);
    report.grid = {.looked = true, .unknown = 16};
    EXPECT_NE(why_idle(report, 4).find("does not answer"), std::string::npos);
    report.grid = {.looked = true, .elsewhere = 16};
    EXPECT_NE(why_idle(report, 4).find("others serve all 16 experts; it keeps 7 copies"),
              std::string::npos);
    report.grid = {.looked = true, .elsewhere = 10, .missing = 6};
    EXPECT_NE(why_idle(report, 4).find("more room than the 4"), std::string::npos);
    report.host.no_memory = 1;
    EXPECT_NE(why_idle(report, 4).find("no room"), std::string::npos);
}

TEST(ServeWords, a_clock_that_is_wrong_is_told_with_its_direction) {
    EXPECT_EQ(words_of_clock(1), "");
    EXPECT_NE(words_of_clock(20).find("20 s behind"), std::string::npos);
    EXPECT_NE(words_of_clock(-20).find("20 s ahead of"), std::string::npos);
}

TEST(ServeWords, a_member_whose_gradients_are_bounded_is_named_and_not_again_each_time) {
    MembersTold told;
    const PeerId peer = security::Identity::generate().id();
    EXPECT_EQ(told.observe(peer, "eve", {.calls = 5000, .shortened = 40}), "");
    EXPECT_EQ(told.observe(peer, "eve", {.calls = 5000, .shortened = 400}), "") << "few of many";
    const std::string text =
        told.observe(peer, "eve", {.calls = 3111, .shortened = 100, .withheld = 3011});
    EXPECT_NE(text.find("eve"), std::string::npos);
    EXPECT_NE(text.find(peer.text()), std::string::npos);
    EXPECT_NE(text.find("3011 were more"), std::string::npos);
    EXPECT_EQ(told.observe(peer, "eve", {.calls = 3200, .shortened = 100, .withheld = 3100}), "");
    EXPECT_NE(told.observe(peer, "eve", {.calls = 90000, .withheld = 90000}), "");
}

}  // namespace
}  // namespace dedloc::cli
