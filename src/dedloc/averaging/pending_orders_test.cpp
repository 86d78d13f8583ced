// Two voters and their evidence: who believes whom, and what comes into the next decision.

#include "dedloc/averaging/pending_orders.h"

#include <gtest/gtest.h>

#include "dedloc/averaging/averaging_testing.h"
#include "dedloc/security/hash.h"
#include "dedloc/security/toy_signature.h"

namespace dedloc::averaging {
namespace {

using robust::Offence;
using robust::OrderKind;

class PendingOrdersVoter {
  public:
    explicit PendingOrdersVoter(sim::SimNode& node)
        : member(node, {}),
          store(member.environment()),
          pending_orders(member.environment(), store) {
        store.start();
        pending_orders.start();
    }
    Task<void> stop() {
        co_await pending_orders.stop();
        co_await store.stop();
        co_await member.stop();
    }
    consensus::Ledger& ledger() { return member.environment().ledger; }

    AnsweringMember member;
    EvidenceStore store;
    PendingOrders pending_orders;
};

class PendingOrdersTest : public testing::Test {
  protected:
    PendingOrdersTest() : world_(5) {
        for (int i = 0; i < 2; ++i) {
            nodes_.push_back(&world_.add_node());
            voters_.push_back(std::make_unique<PendingOrdersVoter>(*nodes_.back()));
        }
        const Bytes beginning = certificate_of_a_branch();
        for (auto& voter : voters_) EXPECT_TRUE(voter->ledger().start_from(beginning));
        world_.run_task(connect(*nodes_[0], *nodes_[1]));
    }
    ~PendingOrdersTest() override {
        for (auto& voter : voters_) world_.run_task(voter->stop());
        for (sim::SimNode* node : nodes_) world_.run_task(node->host().stop());
    }
    static Task<void> connect(sim::SimNode& from, sim::SimNode& to) {
        const TimePoint deadline = from.clock().now() + Duration(5s);
        const auto dialled =
            co_await from.host().dial(to.address() + "/p2p/" + to.id().text(), deadline);
        EXPECT_TRUE(dialled);
    }
    template <typename Value>
    static Task<void> keep(Task<Result<Value>> task, std::optional<Result<Value>>& result) {
        auto outcome = co_await std::move(task);
        result.emplace(std::move(outcome));
    }
    template <typename Value>
    Result<Value> run(Task<Result<Value>> task) {
        std::optional<Result<Value>> result;
        world_.run_task(keep(std::move(task), result));
        return *std::move(result);
    }

    Bytes certificate_of_a_branch() const {
        consensus::Decision beginning;
        beginning.kind = consensus::DecisionKind::branch;
        for (const sim::SimNode* node : nodes_)
            beginning.next_voters.push_back({node->id(), 1, true});
        std::ranges::sort(beginning.next_voters, {}, &consensus::Voter::peer);
        return certificate_by_all(beginning, nodes_);
    }

    // Two votes of the liar, for two decisions of one question.
    Evidence two_votes() const {
        Evidence evidence;
        for (const double samples : {1.0, 2.0}) {
            consensus::Decision decision;
            decision.kind = consensus::DecisionKind::abort;
            decision.branch_samples = samples;
            const Bytes text = wire::encode(decision);
            const Bytes vote = consensus::vote_bytes(consensus::decision_digest(text), 2);
            evidence.votes.push_back({text, 2, liar_.sign(consensus::vote_domain, vote)});
        }
        return evidence;
    }
    const consensus::Base& base() { return voters_[0]->ledger().base(); }
    ProposedOrder proved_order() {
        return propose_order(base(), liar_.id(), OrderKind::ban, Offence::double_vote, two_votes());
    }
    ProposedOrder unproved_order() {
        Evidence evidence = two_votes();
        evidence.votes[1] = evidence.votes[0];
        return propose_order(base(), liar_.id(), OrderKind::ban, Offence::double_vote, evidence);
    }
    std::vector<robust::Order> next_orders(PendingOrdersVoter& voter) {
        consensus::Decision decision;
        decision.instance = voter.ledger().base().instance;
        return voter.pending_orders.orders_for(voter.ledger().base(), decision);
    }
    Result<void> checked_by_second(const robust::Order& order) {
        robust::OrderChanges changes;
        changes.added = {order};
        auto decision = std::make_shared<const consensus::Decision>();
        return run(voters_[1]->pending_orders.check(decision, changes, nodes_[0]->id()));
    }

    sim::World world_;
    std::vector<sim::SimNode*> nodes_;
    std::vector<std::unique_ptr<PendingOrdersVoter>> voters_;
    security::ToySigner liar_{77};
};

TEST_F(PendingOrdersTest, what_is_proved_is_told_to_the_voters_and_comes_into_everybodys_decision) {
    voters_[0]->pending_orders.add(proved_order());
    EXPECT_EQ(next_orders(*voters_[0]).size(), 1u);
    world_.run_for(2s);
    const auto orders = next_orders(*voters_[1]);
    ASSERT_EQ(orders.size(), 1u);
    EXPECT_EQ(orders.front().subject, liar_.id());
    EXPECT_TRUE(
        voters_[1]->store.find(orders.front().evidence));  // a voter that checks it finds it here
}

TEST_F(PendingOrdersTest, what_proves_nothing_is_kept_by_nobody_but_who_says_it) {
    voters_[0]->pending_orders.add(unproved_order());
    world_.run_for(2s);
    EXPECT_TRUE(next_orders(*voters_[1]).empty());
}

TEST_F(PendingOrdersTest, a_decision_may_give_orders_that_evidence_proves_and_no_others) {
    const ProposedOrder proved = proved_order();
    EXPECT_FALSE(checked_by_second(proved.order));  // nobody has the evidence
    (void)voters_[0]->store.put(proved.evidence);
    EXPECT_TRUE(checked_by_second(proved.order));
    const ProposedOrder unproved = unproved_order();
    (void)voters_[0]->store.put(unproved.evidence);
    EXPECT_FALSE(checked_by_second(unproved.order));
    robust::Order of_another = proved.order;
    of_another.subject = nodes_[0]->id();
    EXPECT_FALSE(checked_by_second(of_another));
}

TEST_F(PendingOrdersTest, an_order_holds_no_longer_than_its_kind_may) {
    ProposedOrder proposed = proved_order();
    (void)voters_[0]->store.put(proposed.evidence);
    proposed.order.until_step = proposed.order.from_step + 5;
    EXPECT_FALSE(checked_by_second(proposed.order));
    proposed.order.kind = OrderKind::eliminate;
    proposed.order.until_step = proposed.order.from_step + eliminated_for_steps + 1;
    EXPECT_FALSE(checked_by_second(proposed.order));
}

TEST_F(PendingOrdersTest, a_liar_that_leads_bans_nobody_without_evidence) {
    robust::Order order = proved_order().order;
    order.evidence.bytes[0] ^= 1;
    EXPECT_FALSE(checked_by_second(order));
}

TEST_F(PendingOrdersTest, a_store_gives_large_evidence_piece_by_piece_and_takes_no_other) {
    Bytes large(3u << 20, 9);
    const Digest digest = voters_[0]->store.put(large);
    const TimePoint deadline = world_.now() + 20s;
    const auto fetched = run(voters_[1]->store.fetch(nodes_[0]->id(), digest, deadline));
    ASSERT_TRUE(fetched);
    EXPECT_TRUE(base::equal(**fetched, large));
    Digest unknown = digest;
    unknown.bytes[0] ^= 1;
    EXPECT_FALSE(run(voters_[1]->store.fetch(nodes_[0]->id(), unknown, deadline)));
}

TEST_F(PendingOrdersTest, a_store_that_is_full_forgets_the_oldest) {
    EvidenceStore& store = voters_[0]->store;
    const Digest first = store.put(Bytes(evidence_bytes_max, 1));
    EXPECT_TRUE(store.find(first));
    const Digest second = store.put(Bytes(evidence_bytes_max, 2));
    EXPECT_FALSE(store.find(first));
    EXPECT_TRUE(store.find(second));
    EXPECT_FALSE(store.find(store.put(Bytes(evidence_bytes_max + 1, 3))));  // too large for any
}

// A liar answers with other bytes than it was asked for.
TEST_F(PendingOrdersTest, evidence_that_is_another_is_refused) {
    sim::SimNode& liar = world_.add_node();
    p2p::Handlers handlers(liar.host());
    handlers.on_call(evidence_method, [](PeerId, Bytes) -> Task<Result<Bytes>> {
        EvidencePiece piece;
        piece.size = 3;
        piece.piece = Bytes(3, 7);
        co_return wire::encode(piece);
    });
    world_.run_task(connect(*nodes_[1], liar));
    const TimePoint deadline = world_.now() + 20s;
    EXPECT_FALSE(run(voters_[1]->store.fetch(liar.id(), Digest{}, deadline)));
    world_.run_task(handlers.stop());
    world_.run_task(liar.host().stop());
}

}  // namespace
}  // namespace dedloc::averaging
