// One voter of four, and what it makes of the others' findings.

#include "dedloc/validation/validators.h"

#include <gtest/gtest.h>

#include "dedloc/averaging/averaging_testing.h"
#include "dedloc/validation/gradient_recheck_testing.h"

namespace dedloc::validation {
namespace {

using robust::Offence;
using robust::OrderKind;

constexpr std::uint32_t watched = 3;

class ValidatorsTest : public testing::Test {
  protected:
    ValidatorsTest() : world_(3) {
        for (int i = 0; i < 4; ++i) {
            nodes_.push_back(&world_.add_node());
            signers_.push_back(&nodes_.back()->signer());
        }
        member_ =
            std::make_unique<averaging::AnsweringMember>(*nodes_[0], averaging::RoundOptions{});
        store_ = std::make_unique<averaging::EvidenceStore>(member_->environment());
        stand_on({});
        ValidatorOptions options;
        options.check = 1;
        options.tolerance = 2e-3;
        options.right_needed = 1;
        ValidatorHooks hooks;
        hooks.propose = [this](robust::Order order, const Bytes&) { proposed_.push_back(order); };
        hooks.audience = [] { return std::vector<PeerId>{}; };
        hooks.name_of = [](const PeerId& peer) { return peer.short_text(); };
        const averaging::RoundEnvironment& environment = member_->environment();
        validators_ = std::make_unique<GradientValidators>(environment.node,
                                                           environment.host,
                                                           environment.signer,
                                                           environment.verifier,
                                                           environment.ledger,
                                                           environment.parts,
                                                           *store_,
                                                           environment.teller,
                                                           options,
                                                           std::move(hooks));
        validators_->start();
        for (std::size_t i = 1; i < nodes_.size(); ++i)
            world_.run_task(dial(*nodes_[i], *nodes_[0]));
    }
    ~ValidatorsTest() override {
        world_.run_task(validators_->stop());
        world_.run_task(member_->stop());
        for (sim::SimNode* node : nodes_) world_.run_task(node->host().stop());
    }
    static Task<void> dial(sim::SimNode& from, sim::SimNode& to) {
        const TimePoint deadline = from.clock().now() + Duration(5s);
        (void)co_await from.host().dial(to.address() + "/p2p/" + to.id().text(), deadline);
    }
    static Task<void> call(sim::SimNode& from, PeerId to, std::string method, Bytes message) {
        const TimePoint deadline = from.clock().now() + Duration(5s);
        (void)co_await from.host().call(to, method, std::move(message), deadline);
    }
    void say(std::uint32_t from, const char* method, const averaging::SignedBy& what) {
        world_.run_task(call(*nodes_[from], nodes_[0]->id(), method, wire::encode(what)));
    }

    // The chain is at that decision now: four voters, and these orders.
    void stand_on(std::vector<robust::Order> orders) {
        consensus::Decision decision;
        decision.kind = consensus::DecisionKind::branch;
        decision.instance.step = 20;
        decision.orders = std::move(orders);
        for (const sim::SimNode* node : nodes_)
            decision.next_voters.push_back({node->id(), 1, true});
        std::ranges::sort(decision.next_voters, {}, &consensus::Voter::peer);
        consensus::Certificate certificate;
        certificate.decision = wire::encode(decision);
        const Bytes vote =
            consensus::vote_bytes(consensus::decision_digest(certificate.decision), 0);
        for (const sim::SimNode* node : nodes_)
            certificate.votes.push_back(
                {node->id(), node->signer().sign(consensus::vote_domain, vote)});
        EXPECT_TRUE(member_->environment().ledger.start_from(wire::encode(certificate)));
    }
    robust::Order earlier(OrderKind kind, std::uint32_t subject) const {
        robust::Order order;
        order.kind = kind;
        order.offence = Offence::mistaken;
        order.subject = nodes_[subject]->id();
        order.from_step = 5;
        order.until_step = robust::for_good;
        return order;
    }

    // Everybody says that it computed 1; the watched one, `value`.
    RoundOfValues certify(std::uint64_t step,
                          float value,
                          std::set<std::uint32_t> weightless = {}) {
        RoundOfValues round(signers_, step, std::move(weightless));
        averaging::Proof proof{round.draw, {}};
        for (std::uint32_t m = 0; m < nodes_.size(); ++m)
            proof.answers.push_back(round.answer(m, m == watched ? value : 1));
        consensus::Decision decision;
        decision.instance.step = step;
        decision.plan = round.plan_bytes;
        decision.proof = store_->put(wire::encode(proof));
        for (const sim::SimNode* node : nodes_)
            decision.next_voters.push_back({node->id(), 1, true});
        validators_->certified(
            decision, std::make_shared<const consensus::RoundPlan>(round.plan()), nullptr);
        return round;
    }
    // Voters 1 and 2 answer all checks of the round.
    void have_two_answer_all(const RoundOfValues& round) {
        for (const std::uint32_t voter : {1u, 2u})
            for (std::uint32_t target = 0; target < 4; ++target)
                if (target != voter) say(voter, finding_method, round.finding(voter, target, 1));
    }
    void expect_only(OrderKind kind, Offence offence, std::uint32_t subject) const {
        ASSERT_EQ(proposed_.size(), 1u);
        EXPECT_EQ(proposed_.front().kind, kind);
        EXPECT_EQ(proposed_.front().offence, offence);
        EXPECT_EQ(proposed_.front().subject, nodes_[subject]->id());
    }

    sim::World world_;
    std::vector<sim::SimNode*> nodes_;
    std::vector<const security::Signer*> signers_;
    std::unique_ptr<averaging::AnsweringMember> member_;
    std::unique_ptr<averaging::EvidenceStore> store_;
    std::unique_ptr<GradientValidators> validators_;
    std::vector<robust::Order> proposed_;
};

TEST_F(ValidatorsTest, one_that_finds_something_else_is_not_enough_and_two_are) {
    const RoundOfValues round = certify(10, 1.5f);
    say(1, finding_method, round.finding(1, watched, 1));
    EXPECT_TRUE(proposed_.empty());
    say(2, finding_method, round.finding(2, watched, 1));
    expect_only(OrderKind::probation, Offence::mistaken, watched);
}

TEST_F(ValidatorsTest, a_finding_may_come_before_its_round_and_from_somebody_else) {
    const RoundOfValues round(signers_, 10);
    say(2, finding_method, round.finding(1, watched, 1));
    say(2, finding_method, round.finding(2, watched, 1));
    (void)certify(10, 1.5f);
    expect_only(OrderKind::probation, Offence::mistaken, watched);
}

TEST_F(ValidatorsTest, a_finding_that_another_signed_counts_for_nothing) {
    const RoundOfValues round = certify(10, 1.5f);
    say(1, finding_method, round.finding(1, watched, 1));
    averaging::SignedBy forged = round.finding(1, watched, 1);
    forged.member = 2;
    say(1, finding_method, forged);
    EXPECT_TRUE(proposed_.empty());
}

TEST_F(ValidatorsTest, whoever_accuses_an_author_that_others_find_right_is_told) {
    const RoundOfValues round = certify(10, 1);
    say(1, finding_method, round.finding(1, watched, 7));
    say(2, finding_method, round.finding(2, watched, 1));
    EXPECT_TRUE(proposed_.empty());
    say(1, finding_method, round.finding(0, watched, 1));
    expect_only(OrderKind::probation, Offence::mistaken, 1);
}

TEST_F(ValidatorsTest, the_second_wrong_contribution_after_it_was_told_is_a_ban) {
    const RoundOfValues first = certify(10, 1.5f);
    for (const std::uint32_t voter : {1u, 2u})
        say(voter, finding_method, first.finding(voter, watched, 1));
    proposed_.clear();
    stand_on({earlier(OrderKind::probation, watched)});
    const RoundOfValues second = certify(11, 1.5f, {watched});
    for (const std::uint32_t voter : {1u, 2u})
        say(voter, finding_method, second.finding(voter, watched, 1));
    expect_only(OrderKind::ban, Offence::wrong_gradient, watched);
}

TEST_F(ValidatorsTest, a_peer_on_probation_that_is_right_is_pardoned_and_banned_the_next_time) {
    stand_on({earlier(OrderKind::probation, watched)});
    const RoundOfValues right = certify(11, 1, {watched});
    for (const std::uint32_t voter : {1u, 2u, 0u})  // one of them was drawn
        say(1, finding_method, right.finding(voter, watched, 1));
    expect_only(OrderKind::vouch, Offence::mistaken, watched);
    proposed_.clear();
    stand_on({earlier(OrderKind::vouch, watched)});
    const RoundOfValues wrong = certify(12, -1);
    for (const std::uint32_t voter : {1u, 2u})
        say(voter, finding_method, wrong.finding(voter, watched, 1));
    expect_only(OrderKind::ban, Offence::wrong_gradient, watched);
}

TEST_F(ValidatorsTest, who_answers_no_check_is_put_on_probation_by_several_who_say_so) {
    std::vector<RoundOfValues> rounds;
    for (std::uint64_t step = 4; step < 18; ++step) {
        rounds.push_back(certify(step, 1));
        // With this peer, which is drawn as well, nobody is strict.
        have_two_answer_all(rounds.back());
    }
    EXPECT_TRUE(proposed_.empty());  // our word alone
    for (const RoundOfValues& round : rounds) say(1, silence_method, round.testimony(1, watched));
    ASSERT_FALSE(proposed_.empty());
    for (const robust::Order& order : proposed_) {
        EXPECT_EQ(order.kind, OrderKind::probation);
        EXPECT_EQ(order.offence, Offence::withheld);
        EXPECT_EQ(order.subject, nodes_[watched]->id());
    }
}

// In every second round the watched one answers a check of five rounds ago, as it had others to
// compute first; two become late in between.
TEST_F(ValidatorsTest, who_answers_checks_late_is_not_thought_silent) {
    std::vector<RoundOfValues> rounds;
    for (std::uint64_t step = 4; step < 18; ++step) {
        rounds.push_back(certify(step, 1));
        have_two_answer_all(rounds.back());
        if (step % 2 == 1) continue;
        const RoundOfValues& old = rounds[rounds.size() < 6 ? 0 : rounds.size() - 6];
        for (std::uint32_t target = 0; target < watched; ++target)
            say(watched, finding_method, old.finding(watched, target, 1));
    }
    // This peer does not call it silent, and the word of the other voter alone is not enough.
    for (const RoundOfValues& round : rounds) say(1, silence_method, round.testimony(1, watched));
    EXPECT_TRUE(proposed_.empty());
}

TEST_F(ValidatorsTest, the_testimonies_of_others_are_enough_and_strange_ones_count_for_nothing) {
    const RoundOfValues round = certify(10, 1);
    for (const std::uint32_t witness : {1u, 2u})
        say(witness, silence_method, round.testimony(witness, watched));
    expect_only(OrderKind::probation, Offence::withheld, watched);  // two are enough
    proposed_.clear();
    say(1, silence_method, round.testimony(1, 9));  // nobody's place
    say(1, silence_method, round.testimony(1, 1));
    EXPECT_TRUE(proposed_.empty());
}

}  // namespace
}  // namespace dedloc::validation
