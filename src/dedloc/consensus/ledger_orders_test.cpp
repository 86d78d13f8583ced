#include <gtest/gtest.h>

#include "dedloc/consensus/ledger.h"
#include "dedloc/security/toy_signature.h"
#include "dedloc/wire/message.h"

namespace dedloc::consensus {
namespace {

using robust::Offence;
using robust::Order;
using robust::OrderKind;

// A run whose host is the only voter; a second peer takes part.
class OrdersOnCertificates : public testing::Test {
  protected:
    OrdersOnCertificates() {
        run_.bytes[0] = 1;
        state_.bytes[0] = 2;
    }

    Ledger& begun(std::vector<Order> orders = {}) {
        EXPECT_TRUE(ledger_.start_from(
            make_genesis(run_, state_, voter(host_), host_, 0, 0, std::move(orders))));
        return ledger_;
    }
    static Voter voter(const security::ToySigner& signer) { return {signer.id(), 1}; }

    static Order order(OrderKind kind, const PeerId& subject, std::uint64_t step) {
        Order made;
        made.kind = kind;
        made.offence = Offence::wrong_gradient;
        made.subject = subject;
        made.from_step = step;
        made.until_step = robust::for_good;
        return made;
    }

    Decision abort() const {
        Decision decision;
        decision.kind = DecisionKind::abort;
        decision.run = run_;
        decision.instance = ledger_.base().instance;
        decision.previous = ledger_.base().previous;
        decision.state_before = state_;
        decision.next_voters = ledger_.base().voters;
        decision.number = ledger_.base().number + 1;
        decision.branch_samples = ledger_.base().branch_samples;
        decision.orders = carried_orders(ledger_.base());
        return decision;
    }
    // Both bring three samples; the second one weighs, or not.
    Decision commit(bool weightless = false) const {
        RoundPlan plan;
        plan.members.push_back({host_.id(), 1, {}});
        plan.members.push_back({other_.id(), 1, {}});
        for (PlanMember& member : plan.members) {
            member.input.fresh = {0, 3, 0};
            if (member.peer == other_.id()) member.weightless = weightless;
        }
        std::ranges::sort(plan.members, {}, &PlanMember::peer);
        plan.parts = {{0, 8, 0}};
        plan.instance = ledger_.base().instance;
        FinishedPart part;
        part.included = {3};
        Decision decision = abort();
        decision.kind = DecisionKind::commit;
        decision.plan = wire::encode(plan);
        decision.parts = {part};
        decision.branch_samples = ledger_.base().branch_samples +
                                  committed_samples(plan, decision.parts, vector_count(plan));
        return decision;
    }
    Result<bool> accept(const Decision& decision) {
        Certificate certificate;
        certificate.decision = wire::encode(decision);
        const Digest digest = decision_digest(certificate.decision);
        certificate.votes.push_back({host_.id(), host_.sign(vote_domain, vote_bytes(digest, 0))});
        auto accepted = ledger_.accept(wire::encode(certificate));
        return accepted;
    }

    security::ToySigner host_{7};
    security::ToySigner other_{9};
    security::ToyVerifier verifier_;
    Digest run_;
    Digest state_;
    Ledger ledger_{verifier_, 8};
};

TEST_F(OrdersOnCertificates, without_orders_a_decision_has_the_bytes_that_it_had_before) {
    begun();
    const Bytes bytes = wire::encode(abort());
    Decision with = abort();
    with.orders = {order(OrderKind::ban, other_.id(), 0)};
    EXPECT_GT(wire::encode(with).size(), bytes.size());
    EXPECT_EQ(wire::encode(*wire::decode<Decision>(bytes)), bytes);
    EXPECT_EQ(wire::encode(*wire::decode<Decision>(wire::encode(with))), wire::encode(with));
}

TEST_F(OrdersOnCertificates, a_ban_holds_from_the_next_decision_on) {
    Ledger& ledger = begun();
    Decision banning = commit();
    banning.orders = {order(OrderKind::ban, other_.id(), 0)};
    ASSERT_TRUE(accept(banning));
    EXPECT_NE(ledger.base().barring(other_.id()), nullptr);
    EXPECT_EQ(ledger.newest_link().changes.added.size(), 1u);
    ledger.set_state(state_);
    const auto with_it = accept(commit());
    ASSERT_FALSE(with_it);
    EXPECT_NE(with_it.error().message().find("banned since step 0"), std::string::npos)
        << with_it.error().message();
    EXPECT_TRUE(accept(abort()));
    EXPECT_NE(ledger.base().barring(other_.id()), nullptr);
}

TEST_F(OrdersOnCertificates, a_decision_that_drops_a_ban_is_refused) {
    begun({order(OrderKind::ban, other_.id(), 0)});
    Decision forgetful = abort();
    forgetful.orders.clear();
    EXPECT_FALSE(accept(forgetful));
    EXPECT_TRUE(accept(abort()));
}

TEST_F(OrdersOnCertificates, nobody_votes_who_is_kept_out) {
    begun({order(OrderKind::ban, other_.id(), 0)});
    Decision decision = abort();
    decision.next_voters.push_back(voter(other_));
    std::ranges::sort(decision.next_voters, {}, &Voter::peer);
    EXPECT_FALSE(accept(decision));
}

TEST_F(OrdersOnCertificates, a_new_branch_keeps_the_orders_and_makes_none) {
    begun({order(OrderKind::eliminate, other_.id(), 0)});
    Decision branch = abort();
    branch.kind = DecisionKind::branch;
    branch.instance = {branch_id(branch.previous, branch.next_voters), 0, 0};
    Decision with_one_more = branch;
    with_one_more.orders.push_back(order(OrderKind::ban, security::ToySigner(11).id(), 0));
    std::ranges::sort(with_one_more.orders, {}, &Order::subject);
    EXPECT_FALSE(accept(with_one_more));
    Decision without = branch;
    without.orders.clear();
    EXPECT_FALSE(accept(without));
    EXPECT_TRUE(accept(branch));
}

TEST_F(OrdersOnCertificates, a_run_that_begins_again_keeps_its_orders) {
    Ledger& ledger = begun({order(OrderKind::ban, other_.id(), 0)});
    EXPECT_NE(ledger.base().barring(other_.id()), nullptr);
}

TEST_F(OrdersOnCertificates, a_newcomer_weighs_nothing_until_an_order_vouches_for_it) {
    ledger_.let_newcomers_weigh_nothing();
    Ledger& ledger = begun();
    EXPECT_TRUE(ledger.base().weighs(host_.id()));
    EXPECT_FALSE(ledger.base().weighs(other_.id()));
    EXPECT_FALSE(accept(commit(/*weightless=*/false)));
    Decision as_newcomer = commit(/*weightless=*/true);
    EXPECT_EQ(as_newcomer.branch_samples, 3);
    ASSERT_TRUE(accept(as_newcomer));
    ledger.set_state(state_);
    Decision early = abort();
    early.next_voters.push_back(voter(other_));
    std::ranges::sort(early.next_voters, {}, &Voter::peer);
    EXPECT_FALSE(accept(early));
    Decision vouching = early;
    vouching.orders = {order(OrderKind::vouch, other_.id(), 1)};
    EXPECT_TRUE(accept(vouching));
    EXPECT_TRUE(ledger.base().weighs(other_.id()));
}

TEST_F(OrdersOnCertificates, on_probation_a_voter_weighs_nothing_and_votes_no_more) {
    Ledger& ledger = begun();
    Decision decision = abort();
    decision.orders = {order(OrderKind::probation, other_.id(), 0)};
    ASSERT_TRUE(accept(decision));
    EXPECT_FALSE(ledger.base().weighs(other_.id()));
    EXPECT_EQ(ledger.base().barring(other_.id()), nullptr);
    EXPECT_FALSE(accept(commit(/*weightless=*/false)));
    EXPECT_TRUE(accept(commit(/*weightless=*/true)));
}

}  // namespace
}  // namespace dedloc::consensus
