#include "dedloc/consensus/peer_score.h"

#include <gtest/gtest.h>

#include "dedloc/consensus/ledger.h"
#include "dedloc/security/toy_signature.h"
#include "dedloc/wire/message.h"

namespace dedloc::consensus {
namespace {

// Four trainers who own two parts each.
class PeerScoreTest : public testing::Test {
  protected:
    PeerScoreTest() {
        for (std::uint64_t i = 0; i < 4; ++i) {
            PlanMember member;
            member.peer = security::toy_peer_id(i);
            member.input.fresh = {0, 10, 0};
            plan_.members.push_back(member);
        }
        std::ranges::sort(plan_.members, {}, &PlanMember::peer);
        for (std::uint32_t i = 0; i < 8; ++i) plan_.parts.push_back({i * 100, 100, i / 2});
    }
    bool learn(const Decision& decision) {
        const auto plan = plan_of(decision);
        return score_.learn(decision, plan ? plan->get() : nullptr);
    }
    const PeerId& peer(std::uint32_t member) const { return plan_.members[member].peer; }
    // Everybody is in everything, and owners reduced what they own.
    Decision commit() const {
        Decision decision;
        decision.plan = wire::encode(plan_);
        for (std::uint32_t i = 0; i < plan_.parts.size(); ++i) {
            FinishedPart part;
            part.part = i;
            part.owner = plan_.parts[i].owner;
            part.included = no_members(plan_);
            for (std::size_t member = 0; member < plan_.members.size(); ++member)
                base::set_bit(part.included, member);
            decision.parts.push_back(part);
        }
        return decision;
    }
    // A decision without parts that others reduce.
    Decision without(std::uint32_t member) const {
        Decision decision = commit();
        for (FinishedPart& part : decision.parts)
            if (part.owner != member)
                part.included[member / 8] &= static_cast<std::uint8_t>(~(1u << (member % 8)));
        return decision;
    }
    Decision repaired(std::initializer_list<std::uint32_t> owners, std::uint32_t by) const {
        Decision decision = commit();
        for (FinishedPart& part : decision.parts)
            if (std::ranges::find(owners, part.owner) != owners.end()) {
                part.owner = by;
                part.repair = 1;
            }
        return decision;
    }

    RoundPlan plan_;
    PeerScore score_;
};

TEST_F(PeerScoreTest, who_failed_nobody_owns_leads_and_is_waited_for) {
    EXPECT_TRUE(learn(commit()));
    EXPECT_TRUE(score_.may_own(peer(1)));
    EXPECT_TRUE(score_.may_lead(peer(1)));
    EXPECT_TRUE(score_.is_waited_for(peer(1)));
}

TEST_F(PeerScoreTest, who_is_in_no_part_of_others_owns_nothing_until_it_is) {
    EXPECT_FALSE(learn(without(2)));
    EXPECT_FALSE(score_.may_own(peer(2)));
    EXPECT_TRUE(score_.may_own(peer(1)));
    EXPECT_TRUE(score_.is_waited_for(peer(2))) << "what it brought is carried, once";
    EXPECT_FALSE(learn(without(2)));
    EXPECT_FALSE(score_.is_waited_for(peer(2)));
    EXPECT_FALSE(score_.may_lead(peer(2)));
    EXPECT_TRUE(learn(commit()));
    EXPECT_TRUE(score_.may_own(peer(2)));
    EXPECT_TRUE(score_.may_lead(peer(2)));
    EXPECT_TRUE(score_.is_waited_for(peer(2)));
}

TEST_F(PeerScoreTest, what_its_sender_alone_reduces_by_the_plan_is_no_evidence) {
    EXPECT_EQ(has_reached_others(plan_, commit(), 2), true);
    EXPECT_EQ(has_reached_others(plan_, without(2), 2), false);
    for (auto& part : plan_.parts) part.owner = 2;
    EXPECT_EQ(has_reached_others(plan_, commit(), 2), std::nullopt);
}

TEST_F(PeerScoreTest, a_repair_that_gives_it_all_parts_is_no_excuse) {
    Decision decision = without(2);
    for (FinishedPart& part : decision.parts) {
        part.owner = 2;
        base::set_bit(part.included, 2);
    }
    EXPECT_FALSE(learn(decision));
    EXPECT_FALSE(score_.may_own(peer(2)));
}

TEST_F(PeerScoreTest, who_is_slow_and_not_waited_for_has_another_chance_from_time_to_time) {
    int waited = 0;
    for (int i = 0; i < 64; ++i) {
        learn(without(2));
        waited += score_.is_waited_for(peer(2)) ? 1 : 0;
    }
    EXPECT_EQ(waited, 1 + 4);
}

TEST_F(PeerScoreTest, an_owner_whose_parts_others_reduce_owns_nothing_for_ever_longer) {
    const auto commits_until_it_owns = [this] {
        int commits = 0;
        for (; !score_.may_own(peer(2)) && commits < 1000; ++commits) {
            plan_.parts[4].owner = plan_.parts[5].owner = 0;
            learn(commit());
        }
        plan_.parts[4].owner = plan_.parts[5].owner = 2;
        return commits;
    };
    std::vector<int> commits;
    for (int i = 0; i < 6; ++i) {
        EXPECT_FALSE(learn(repaired({2}, 1)));
        EXPECT_TRUE(score_.is_waited_for(peer(2)));
        commits.push_back(commits_until_it_owns());
    }
    EXPECT_EQ(commits, (std::vector<int>{4, 8, 16, 32, 64, 64}));
    learn(commit());
    learn(repaired({2}, 1));
    EXPECT_EQ(commits_until_it_owns(), 4) << "it was well in between";
}

TEST_F(PeerScoreTest, where_most_owners_fail_none_of_them_is_to_blame) {
    Decision decision = repaired({0, 2, 3}, 1);
    decision.parts[2].owner = 0;
    EXPECT_TRUE(learn(decision)) << "that is how long rounds take";
    for (std::uint32_t i = 0; i < 4; ++i) EXPECT_TRUE(score_.may_own(peer(i)));
}

TEST_F(PeerScoreTest, who_only_owns_and_who_owns_all_is_not_missed) {
    plan_.members[3].input = {};
    for (PlanPart& part : plan_.parts) part.owner = 1;
    Decision decision = without(3);
    for (FinishedPart& part : decision.parts) part.owner = 1;
    EXPECT_TRUE(learn(decision));
}

TEST_F(PeerScoreTest, what_is_no_commit_or_cannot_be_read_blames_nobody) {
    Decision decision = without(2);
    decision.kind = DecisionKind::abort;
    EXPECT_FALSE(learn(decision));
    decision.kind = DecisionKind::commit;
    decision.plan.resize(20);
    EXPECT_FALSE(learn(decision));
    EXPECT_TRUE(score_.may_own(peer(2)));
}

}  // namespace
}  // namespace dedloc::consensus
