// A voter completes a proposal that leaves out what it holds.

#include "dedloc/consensus/compact_proposal.h"

#include <gtest/gtest.h>

#include "dedloc/wire/message.h"

namespace dedloc::consensus {
namespace {

class CompactProposalTest : public testing::Test {
  protected:
    CompactProposalTest() {
        plan_.parts.resize(8);
        for (std::uint32_t part = 0; part < plan_.parts.size(); ++part) {
            plan_.parts[part] = {part * 100u, 100, 0};
            FinishedPart header;
            header.part = part;
            header.included = {0b111};
            header.digest.bytes[0] = static_cast<std::uint8_t>(part + 1);
            header.signature = Bytes(64, 7);
            here_[part] = header;
            decision_.parts.push_back(header);
        }
        decision_.plan = wire::encode(plan_);
        decision_.branch_samples = 39;
    }
    Result<Bytes> whole(const Propose& propose) const {
        return whole_decision(propose, plan_, here_);
    }

    RoundPlan plan_;
    std::map<std::uint32_t, FinishedPart> here_;
    Decision decision_;
};

TEST_F(CompactProposalTest, is_whole_again_at_a_voter_that_holds_the_same_averages) {
    const Bytes decision = wire::encode(decision_);
    const Propose propose = compact_proposal(/*ballot=*/3, decision);
    EXPECT_LT(wire::encode(propose).size(), 200u);
    EXPECT_GT(decision.size(), 800u);
    const auto again = whole(propose);
    ASSERT_TRUE(again);
    EXPECT_EQ(*again, decision);
}

TEST_F(CompactProposalTest, is_not_whole_where_other_averages_are) {
    decision_.parts[4].included[0] ^= 1;
    EXPECT_EQ(whole(compact_proposal(3, wire::encode(decision_))).error().kind(),
              ErrorKind::not_found);
}

TEST_F(CompactProposalTest, that_cannot_be_read_breaks_the_protocol) {
    Propose propose = compact_proposal(3, wire::encode(decision_));
    propose.compact_decision.assign(40, 0xff);
    EXPECT_EQ(whole(propose).error().kind(), ErrorKind::peer_broke_protocol);
}

TEST_F(CompactProposalTest, leaves_nothing_out_of_what_is_no_commit_or_cannot_be_read) {
    decision_.kind = DecisionKind::abort;
    EXPECT_TRUE(compact_proposal(3, wire::encode(decision_)).compact_decision.empty());
    EXPECT_TRUE(compact_proposal(3, Bytes(40, 0xff)).compact_decision.empty());
}

}  // namespace
}  // namespace dedloc::consensus
