// A voter decides by what its module above says of the bytes, and by nothing else of them.

#include "dedloc/consensus/acceptor.h"

#include <gtest/gtest.h>

#include "dedloc/sim/world.h"
#include "dedloc/wire/message.h"

namespace dedloc::consensus {
namespace {

class Above final : public Electorate,
                    public Averages,
                    public ConsensusListener,
                    public events::Teller {
  public:
    bool allowed(const PeerId&) const override { return true; }
    std::size_t voters_heard_of(const Base& base) const override { return base.voters.size(); }

    Ok check_plan(const RoundPlan&) const override { return {}; }
    Task<Result<void>> hold(std::shared_ptr<const RoundPlan> plan,
                            std::vector<FinishedPart> parts,
                            PeerId) override {
        asked_for += parts.size() == plan->parts.size() ? 1 : 0;
        co_return held;
    }
    void keep(const RoundPlan&, const Decision&) override { ++kept; }

    void behind(const PeerId&) override {}
    void voting_for(const Decision&) override { ++voted_for; }
    void tell(events::Any what, PeerId peer, std::string) override {
        if (std::holds_alternative<events::MessageRefused>(what)) accused.push_back(peer);
    }

    Result<void> held;
    int asked_for = 0;
    int kept = 0;
    int voted_for = 0;
    std::vector<PeerId> accused;
};

// The only voter is asked by itself to commit a step of its own.
class AcceptorTest : public testing::Test {
  protected:
    AcceptorTest() : world_(4), node_(world_.add_node()) {
        acceptor_ = std::move(*Acceptor::open(environment_));
        Digest state;
        state.bytes[0] = 5;
        const Voter voter{node_.id(), acceptor_->incarnation(), true};
        EXPECT_TRUE(ledger_.start_from(
            make_genesis(Digest{}, state, voter, node_.signer(), 0, /*samples=*/0)));
        make_decision();
    }
    ~AcceptorTest() override {
        world_.run_task(acceptor_->stop());
        world_.run_task(node_.host().stop());
    }

    void make_decision() {
        const Base& base = ledger_.base();
        RoundPlan plan;
        plan.instance = base.instance;
        plan.previous = base.previous;
        plan.leader = node_.id();
        plan.members.push_back({node_.id(), acceptor_->incarnation(), {}});
        plan.members.front().input.fresh = {0, 10, 0};
        plan.parts = {{0, 100, 0}};
        plan.round_ms = 1000;
        decision_.instance = base.instance;
        decision_.previous = base.previous;
        decision_.state_before = *base.state;
        decision_.plan = wire::encode(plan);
        decision_.next_voters = base.voters;
        decision_.number = base.number + 1;
        decision_.branch_samples = 10;
        FinishedPart part;
        part.plan = decision_digest(decision_.plan);
        part.included = {0b1};
        part.signature = node_.signer().sign(part_domain, part.signed_bytes());
        decision_.parts = {part};
    }
    Task<void> ask() {
        Propose proposal;
        proposal.decision = wire::encode(decision_);
        reply_ = co_await acceptor_->on_propose(node_.id(), std::move(proposal));
    }
    Answer answer() {
        world_.run_task(ask());
        return reply_.answer;
    }

    sim::World world_;
    sim::SimNode& node_;
    security::ToyVerifier verifier_;
    Ledger ledger_{verifier_, 8};
    PeerScore scores_;
    links::Timeouts timeouts_{600ms, 120s};
    Above above_;
    events::Complaints complaints_{above_};
    ConsensusEnvironment environment_{node_.runtime(),
                                      node_.host(),
                                      node_.signer(),
                                      verifier_,
                                      ledger_,
                                      scores_,
                                      timeouts_,
                                      above_,
                                      above_,
                                      above_,
                                      above_,
                                      complaints_,
                                      {}};
    std::unique_ptr<Acceptor> acceptor_;
    Decision decision_;
    ConsensusReply reply_;
};

TEST_F(AcceptorTest, votes_for_a_commit_whose_averages_are_held_and_has_them_kept) {
    EXPECT_EQ(answer(), Answer::yes) << reply_.reason;
    EXPECT_EQ(above_.asked_for, 1);
    EXPECT_EQ(above_.kept, 1);
    EXPECT_EQ(above_.voted_for, 1);
    const Bytes vote = vote_bytes(decision_digest(wire::encode(decision_)), 0);
    EXPECT_TRUE(verifier_.verify(node_.id(), vote_domain, vote, reply_.signature));
}

TEST_F(AcceptorTest, refuses_a_commit_whose_averages_do_not_come_and_blames_nobody) {
    above_.held = make_error(ErrorKind::not_found, "nobody has them");
    EXPECT_EQ(answer(), Answer::refused);
    EXPECT_EQ(reply_.reason, "nobody has them");
    EXPECT_TRUE(above_.accused.empty());
    EXPECT_EQ(above_.kept, 0);
}

TEST_F(AcceptorTest, blames_the_proposer_of_averages_that_nobody_can_apply) {
    above_.held = make_error(ErrorKind::peer_broke_protocol, "an average is damaged");
    EXPECT_EQ(answer(), Answer::refused);
    EXPECT_EQ(above_.accused, std::vector<PeerId>{node_.id()});
}

TEST_F(AcceptorTest, does_not_ask_for_averages_of_a_decision_that_counts_samples_wrong) {
    decision_.branch_samples = 11;
    EXPECT_EQ(answer(), Answer::refused);
    EXPECT_EQ(above_.asked_for, 0);
    EXPECT_EQ(above_.accused.size(), 1u);
}

}  // namespace
}  // namespace dedloc::consensus
