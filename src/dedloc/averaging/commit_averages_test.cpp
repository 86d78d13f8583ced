// An acceptor looks at what it is asked to certify: averages that a leader of its two made up.

#include "dedloc/averaging/commit_averages.h"

#include <gtest/gtest.h>
#include <limits>

#include "dedloc/allreduce/plan_check.h"
#include "dedloc/averaging/averaging_testing.h"
#include "dedloc/codec/codec.h"
#include "dedloc/consensus/acceptor.h"
#include "dedloc/security/hash_list.h"

namespace dedloc::averaging {
namespace {

constexpr std::uint64_t half = 500;  // elements of a part

// n0 leads, owns both parts but for n1's by the plan, and has the bytes; n1 votes.
class CommitAveragesTest : public testing::Test {
  protected:
    CommitAveragesTest() : world_(17) {
        options_.codec = codec::CodecId::fp32;
        options_.vector_count = 2 * half;
        for (int i = 0; i < 2; ++i) {
            nodes_.push_back(&world_.add_node());
            peers_.push_back(std::make_unique<AnsweringMember>(*nodes_.back(), options_));
        }
        AnsweringMember& member = *peers_[1];
        averages_ = std::make_unique<CommitAverages>(member.environment(), member.fetcher());
        environment_ = std::make_unique<consensus::ConsensusEnvironment>(
            consensus_environment(member.environment(),
                                  member.scores(),
                                  member.timeouts(),
                                  *averages_,
                                  member.complaints(),
                                  member.environment().judge));
        voter_ = std::move(*consensus::Acceptor::open(*environment_));
        begin_run();
        make_decision();
    }
    ~CommitAveragesTest() override {
        world_.run_task(voter_->stop());
        world_.run_task(averages_->stop());
        for (auto& peer : peers_) world_.run_task(peer->stop());
        for (sim::SimNode* node : nodes_) world_.run_task(node->host().stop());
    }

    const PeerId& leader() const { return nodes_[0]->id(); }
    const consensus::Base& base() { return peers_[1]->environment().ledger.base(); }
    // A branch of the two.
    void begin_run() {
        consensus::Decision beginning;
        beginning.kind = consensus::DecisionKind::branch;
        beginning.next_voters = {{leader(), 7, true},
                                 {nodes_[1]->id(), voter_->incarnation(), true}};
        std::ranges::sort(beginning.next_voters, {}, &consensus::Voter::peer);
        EXPECT_TRUE(
            peers_[1]->environment().ledger.start_from(certificate_by_all(beginning, nodes_)));
    }
    void make_plan() {
        plan_.instance = base().instance;
        plan_.previous = base().previous;
        plan_.leader = leader();
        plan_.ballot = owns_ballot(base(), leader(), 0) ? 0 : 1;
        plan_.codec = static_cast<std::uint32_t>(options_.codec);
        for (const consensus::Voter& voter : base().voters) {
            consensus::PlanMember member;
            member.peer = voter.peer;
            member.incarnation = voter.incarnation;
            member.input.fresh = {0, 10, 0};
            plan_.members.push_back(member);
        }
        plan_.parts = {{0, half, place_of(plan_, leader())},
                       {half, half, place_of(plan_, nodes_[1]->id())}};
        plan_.reduce_ms = 500;
        plan_.round_ms = 1000;
        EXPECT_TRUE(allreduce::check_plan(plan_, options_));
    }
    void make_decision() {
        make_plan();
        decision_.instance = base().instance;
        decision_.previous = base().previous;
        decision_.plan = wire::encode(plan_);
        decision_.next_voters = base().voters;
        decision_.number = base().number + 1;
        decision_.parts.resize(2);
        const std::vector<float> numbers(half, 0.5f);
        for (std::uint32_t part = 0; part < 2; ++part) {
            decision_.parts[part].plan = consensus::decision_digest(decision_.plan);
            decision_.parts[part].part = part;
            decision_.parts[part].owner = plan_.parts[part].owner;
            decision_.parts[part].included = {0b11};
            finish(part, codec::encode(options_.codec, numbers));
        }
        decision_.branch_samples = 20;
    }
    // The bytes are the average, and who owns the part says so.
    void finish(std::uint32_t part, Bytes bytes) {
        consensus::FinishedPart& header = decision_.parts[part];
        const SharedBytes encoded(std::move(bytes));
        header.digest = security::hash_list(*encoded);
        sign(part);
        peers_[0]->environment().parts.put(header, encoded);
    }
    void sign(std::uint32_t part) {
        consensus::FinishedPart& header = decision_.parts[part];
        for (const sim::SimNode* node : nodes_)
            if (node->id() == plan_.members[header.owner].peer)
                header.signature =
                    node->signer().sign(consensus::part_domain, header.signed_bytes());
    }
    Task<void> ask() {
        consensus::Propose proposal;
        proposal.ballot = plan_.ballot;
        proposal.decision = wire::encode(decision_);
        reply_ = co_await voter_->on_propose(leader(), std::move(proposal));
    }
    consensus::Answer answer() {
        reply_ = consensus::ConsensusReply{};
        world_.run_task(ask());
        return reply_.answer;
    }
    void expect_refused(const char* why) {
        EXPECT_EQ(answer(), consensus::Answer::refused);
        EXPECT_NE(reply_.reason.find(why), std::string::npos) << reply_.reason;
        EXPECT_GT(peers_[1]->complaints().count(leader()), 0u);
    }

    // The leader alone was in the round.
    void leave_us_out() {
        std::erase_if(plan_.members,
                      [&](const consensus::PlanMember& one) { return one.peer != leader(); });
        for (consensus::PlanPart& part : plan_.parts) part.owner = 0;
        decision_.plan = wire::encode(plan_);
        for (consensus::FinishedPart& header : decision_.parts) {
            header.plan = consensus::decision_digest(decision_.plan);
            header.owner = 0;
            header.included = {0b1};
            sign(header.part);
        }
        decision_.branch_samples = 10;
    }
    void leave_only_the_leader_its_vote() {
        std::erase_if(decision_.next_voters,
                      [&](const consensus::Voter& voter) { return voter.peer != leader(); });
    }
    // Expects it of one whose round it was not in: no lie.
    void expect_to_keep_the_vote() {
        EXPECT_EQ(answer(), consensus::Answer::refused);
        EXPECT_EQ(reply_.reason, "it takes the vote from most of us");
        EXPECT_EQ(peers_[1]->complaints().count(leader()), 0u);
    }

    sim::World world_;
    RoundOptions options_;
    std::vector<sim::SimNode*> nodes_;
    std::vector<std::unique_ptr<AnsweringMember>> peers_;
    std::unique_ptr<CommitAverages> averages_;
    std::unique_ptr<consensus::ConsensusEnvironment> environment_;
    std::unique_ptr<consensus::Acceptor> voter_;
    consensus::RoundPlan plan_;
    consensus::Decision decision_;
    consensus::ConsensusReply reply_;
};

TEST_F(CommitAveragesTest, votes_for_averages_that_it_has_fetched) {
    EXPECT_EQ(answer(), consensus::Answer::yes) << reply_.reason;
    EXPECT_EQ(peers_[0]->asked.size(), 2u);
}

TEST_F(CommitAveragesTest, refuses_an_average_that_is_not_a_number_each_time_it_is_asked) {
    const std::vector<float> numbers(half, std::numeric_limits<float>::quiet_NaN());
    finish(0, codec::encode(options_.codec, numbers));
    expect_refused("not finite");
    expect_refused("not finite");
    EXPECT_EQ(peers_[0]->asked.size(), 2u) << "it has the bytes";
}

TEST_F(CommitAveragesTest,
       says_once_that_its_votes_cannot_be_written_that_it_lasts_and_that_they_can_again) {
    const std::vector<std::string>& told = peers_[1]->notes;
    nodes_[1]->disk().set_full(true);
    EXPECT_EQ(answer(), consensus::Answer::refused);
    EXPECT_EQ(answer(), consensus::Answer::refused);
    ASSERT_EQ(told.size(), 1u);
    EXPECT_TRUE(told[0].starts_with("votes cannot be written: no space left on the disk"))
        << told[0];
    world_.run_for(consensus::disk_failure_of_a_moment - 1s);
    EXPECT_EQ(told.size(), 1u);
    world_.run_for(consensus::disk_tried_again_after + 2s);
    EXPECT_EQ(answer(), consensus::Answer::refused);
    ASSERT_EQ(told.size(), 2u) << "tried again, though nobody asked for a vote";
    EXPECT_TRUE(told[1].starts_with("votes cannot be written for 3")) << told[1];
    nodes_[1]->disk().set_full(false);
    world_.run_for(consensus::disk_tried_again_after + 1s);
    ASSERT_EQ(told.size(), 3u);
    EXPECT_EQ(answer(), consensus::Answer::yes) << reply_.reason;
    EXPECT_EQ(answer(), consensus::Answer::yes);
    ASSERT_EQ(told.size(), 3u);
    EXPECT_EQ(told[2], "votes can be written again");
    // The next time is another one.
    nodes_[1]->disk().set_full(true);
    EXPECT_EQ(answer(), consensus::Answer::refused);
    EXPECT_EQ(told.size(), 4u);
}

TEST_F(CommitAveragesTest, refuses_an_average_of_three_bytes) {
    finish(0, Bytes{1, 2, 3});
    expect_refused("damaged");
}

TEST_F(CommitAveragesTest, looks_at_no_average_that_its_exchange_has_looked_at) {
    const std::vector<float> numbers(half, std::numeric_limits<float>::quiet_NaN());
    finish(0, codec::encode(options_.codec, numbers));
    averages_->ask_whether_checked(
        [](const consensus::FinishedPart& part) { return part.part == 0; });
    EXPECT_EQ(answer(), consensus::Answer::yes) << reply_.reason;
}

TEST_F(CommitAveragesTest, refuses_an_average_of_one_who_does_not_own_the_part) {
    decision_.parts[1].owner = plan_.parts[0].owner;
    sign(1);
    expect_refused("does not fit its plan");
    EXPECT_TRUE(peers_[0]->asked.empty());
}

TEST_F(CommitAveragesTest,
       takes_a_repaired_average_of_its_leader_and_no_more_repairs_than_there_are) {
    decision_.parts[1].owner = plan_.parts[0].owner;
    decision_.parts[1].repair = consensus::repairs_max + 1;
    sign(1);
    expect_refused("does not fit its plan");
    decision_.parts[1].repair = consensus::repairs_max;
    sign(1);
    EXPECT_EQ(answer(), consensus::Answer::yes) << reply_.reason;
}

TEST_F(CommitAveragesTest, refuses_an_average_that_includes_somebody_beyond_the_members) {
    decision_.parts[0].included = {0b111};
    sign(0);
    expect_refused("does not fit its plan");
}

TEST_F(CommitAveragesTest,
       keeps_its_vote_where_it_was_not_in_the_round_and_less_than_a_majority_were) {
    leave_us_out();
    EXPECT_EQ(answer(), consensus::Answer::yes) << reply_.reason;
    leave_only_the_leader_its_vote();
    expect_to_keep_the_vote();
}

TEST_F(CommitAveragesTest, keeps_its_vote_where_an_attempt_came_to_nothing) {
    decision_ = consensus::Decision{};
    decision_.kind = consensus::DecisionKind::abort;
    decision_.instance = base().instance;
    decision_.previous = base().previous;
    decision_.next_voters = base().voters;
    decision_.number = base().number + 1;
    EXPECT_EQ(answer(), consensus::Answer::yes) << reply_.reason;
    leave_only_the_leader_its_vote();
    expect_to_keep_the_vote();
}

}  // namespace
}  // namespace dedloc::averaging
