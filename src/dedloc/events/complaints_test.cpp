#include "dedloc/events/complaints.h"

#include <gtest/gtest.h>
#include <vector>

#include "dedloc/security/toy_signature.h"

namespace dedloc::events {
namespace {

class Told final : public Teller {
  public:
    void tell(Any what, PeerId, std::string text) override {
        kinds.push_back(std::holds_alternative<InputRefused>(what) ? "input" : "message");
        texts.push_back(std::move(text));
    }
    std::vector<std::string> kinds;
    std::vector<std::string> texts;
};

class ComplaintsTest : public testing::Test {
  protected:
    Told told_;
    Complaints complaints_{told_};
    PeerId liar_ = security::toy_peer_id(1);
    TimePoint now_ = TimePoint{100s};
};

TEST_F(ComplaintsTest, counts_every_offence_and_tells_of_a_few_in_a_second) {
    for (int i = 0; i < 50; ++i) complaints_.add(liar_, now_, "nonsense", InputRefused{});
    EXPECT_EQ(complaints_.count(liar_), 50u);
    EXPECT_EQ(told_.texts.size(), misbehaviour_lines_per_s_max);
    EXPECT_EQ(told_.kinds.front(), "input");
    complaints_.add(liar_, now_ + Duration(1s), "nonsense again");
    EXPECT_EQ(told_.texts.back(), "nonsense again");
    EXPECT_EQ(told_.kinds.back(), "message");
}

TEST_F(ComplaintsTest, takes_no_offence_at_who_is_late_or_stands_elsewhere) {
    complaints_.add_if_broken(liar_, now_, make_error(ErrorKind::conflict, "another step"));
    complaints_.add_if_broken(liar_, now_, make_error(ErrorKind::timeout, "late"));
    EXPECT_EQ(complaints_.count(liar_), 0u);
    complaints_.add_if_broken(liar_, now_, make_error(ErrorKind::peer_broke_protocol, "a lie"));
    EXPECT_EQ(told_.texts, std::vector<std::string>{"a lie"});
}

TEST_F(ComplaintsTest, bars_only_a_peer_that_was_complained_of_and_only_for_a_while) {
    complaints_.bar(liar_, now_);
    EXPECT_FALSE(complaints_.is_barred(liar_, now_));
    complaints_.add(liar_, now_, "a lie");
    complaints_.bar(liar_, now_);
    EXPECT_TRUE(complaints_.is_barred(liar_, now_ + Duration(9s)));
    EXPECT_FALSE(complaints_.is_barred(liar_, now_ + Duration(10s)));
}

}  // namespace
}  // namespace dedloc::events
