// Answers of a peer to an announcement, by what it knows and what the other one stands on.

#include "dedloc/averaging/round_service.h"

#include "dedloc/averaging/coordinator_testing.h"

namespace dedloc::averaging {
namespace {

// The first trainer is the only voter, so it leads. A visitor asks it by hand.
class RoundServiceTest : public RoundTest {
  protected:
    RoundServiceTest() : leader_(add_trainer()), visitor_(world_.add_node()) {}

    void begin() {
        introduce(leader_, visitor_);
        begin_all();
    }
    // Stands where the leader stands, and brings four samples.
    Announce right() const {
        Announce announce;
        announce.instance = leader_.base().instance;
        announce.previous = leader_.base().previous;
        announce.state = *leader_.base().state;
        announce.incarnation = 1;
        announce.input.fresh = {100, 104, 0};
        announce.dialable = true;
        return announce;
    }
    static Task<void> call(sim::SimNode& from, PeerId to, Bytes request, Result<Bytes>* answer) {
        const TimePoint deadline = from.clock().now() + Duration(5s);
        *answer = co_await from.host().call(to, announce_method, std::move(request), deadline);
    }
    Result<Bytes> ask_with(Bytes request, sim::SimNode& from, RoundTrainer& to) {
        Result<Bytes> answer = make_error(ErrorKind::timeout, "not asked");
        world_.run_task(call(from, to.node().id(), std::move(request), &answer));
        return answer;
    }
    AnnounceReply ask(const Announce& announce, sim::SimNode& from, RoundTrainer& to) {
        const Result<Bytes> answer = ask_with(wire::encode(announce), from, to);
        EXPECT_TRUE(answer);
        if (!answer) return {};
        auto reply = wire::decode<AnnounceReply>(*answer);
        EXPECT_TRUE(reply);
        return reply ? *std::move(reply) : AnnounceReply{};
    }
    AnnounceReply ask(const Announce& announce) { return ask(announce, visitor_, leader_); }

    RoundTrainer& leader_;
    sim::SimNode& visitor_;
};

TEST_F(RoundServiceTest, a_peer_on_the_same_state_is_accepted_and_a_round_is_wanted) {
    begin();
    EXPECT_EQ(ask(right()).result, AnnounceResult::accepted);
    EXPECT_EQ(leader_.wanted, 2) << "by the announcement, and as the leader begins to gather";
}

TEST_F(RoundServiceTest, a_peer_that_brings_nothing_makes_no_round_wanted) {
    begin();
    Announce announce = right();
    announce.input = {};
    EXPECT_EQ(ask(announce).result, AnnounceResult::accepted);
    EXPECT_EQ(leader_.wanted, 0);
}

TEST_F(RoundServiceTest, a_peer_that_is_behind_gets_the_certificates_that_follow) {
    begin();
    const Announce old = right();
    leader_.train();  // an only voter decides alone
    ASSERT_TRUE(world_.run_until([&] { return leader_.steps() >= 2; }, 30s));
    const AnnounceReply reply = ask(old);
    EXPECT_EQ(reply.result, AnnounceResult::you_are_behind);
    EXPECT_GE(reply.certificates.size(), 2u);
    EXPECT_TRUE(leader_.behind_of.empty());
}

TEST_F(RoundServiceTest, a_decision_that_nobody_here_knows_means_that_we_are_behind) {
    begin();
    Announce ahead = right();
    ahead.previous = security::sha256(as_bytes("a step that comes"));
    const AnnounceReply reply = ask(ahead);
    EXPECT_EQ(reply.result, AnnounceResult::i_am_behind);
    EXPECT_TRUE(reply.certificates.empty());
    EXPECT_EQ(leader_.behind_of, std::vector<PeerId>{visitor_.id()});
}

TEST_F(RoundServiceTest, another_state_is_refused_with_what_to_do) {
    begin();
    Announce other = right();
    other.state = security::sha256(as_bytes("another state"));
    const AnnounceReply reply = ask(other);
    EXPECT_EQ(reply.result, AnnounceResult::refused);
    EXPECT_EQ(reply.reason, "you stand on another state; load ours");
}

TEST_F(RoundServiceTest, samples_that_cannot_have_been_computed_are_refused_and_told_of) {
    begin();
    leader_.samples_are = make_error(ErrorKind::peer_broke_protocol, "faster than it says");
    EXPECT_EQ(ask(right()).result, AnnounceResult::refused);
    EXPECT_TRUE(leader_.has_told("faster than it says"));
}

TEST_F(RoundServiceTest, samples_that_are_newer_than_what_we_heard_are_asked_for_again) {
    begin();
    leader_.samples_are = make_error(ErrorKind::overloaded, "its status is older");
    EXPECT_EQ(ask(right()).result, AnnounceResult::accepted);
    EXPECT_EQ(leader_.wanted, 0) << "not kept: it announces itself again";
}

TEST_F(RoundServiceTest, an_aggregator_brings_no_contribution) {
    begin();
    Announce offer = right();
    offer.aggregator = true;
    EXPECT_EQ(ask(offer).result, AnnounceResult::refused);
    offer.input = {};
    sim::SimNode& honest = world_.add_node();
    introduce(leader_, honest);
    EXPECT_EQ(ask(offer, honest, leader_).result, AnnounceResult::accepted);
}

TEST_F(RoundServiceTest, bytes_that_cannot_be_read_are_an_error_and_a_complaint) {
    begin();
    const Result<Bytes> answer = ask_with(Bytes(20, 0xff), visitor_, leader_);
    EXPECT_FALSE(answer);
    EXPECT_TRUE(leader_.has_told("announcement"));
}

TEST_F(RoundServiceTest, who_does_not_lead_sends_others_to_the_leader) {
    RoundTrainer& member = add_trainer();
    begin();
    introduce(member, visitor_);
    const AnnounceReply reply = ask(right(), visitor_, member);
    EXPECT_EQ(reply.result, AnnounceResult::redirect);
    EXPECT_EQ(reply.leader, leader_.node().id());
}

class FullRoundTest : public RoundServiceTest {
  protected:
    FullRoundTest() {
        RoundOptions options = round_options();
        options.members_max = 2;
        small_ = std::make_unique<RoundTrainer>(world_.add_node(), options);
    }
    ~FullRoundTest() override { world_.run_task(small_->stop()); }

    std::unique_ptr<RoundTrainer> small_;  // leads a run of its own
};

TEST_F(FullRoundTest, a_round_has_room_for_so_many_and_tells_the_next_one) {
    introduce(*small_, visitor_);
    small_->begin(consensus::make_genesis(
        run_digest(), first_state(), small_->voter(), small_->node().signer(), 0, 0));
    Announce announce;
    announce.instance = small_->base().instance;
    announce.previous = small_->base().previous;
    announce.state = first_state();
    announce.input.fresh = {0, 4, 0};
    EXPECT_EQ(ask(announce, visitor_, *small_).result, AnnounceResult::accepted);
    sim::SimNode& late = world_.add_node();
    introduce(*small_, late);
    const AnnounceReply reply = ask(announce, late, *small_);
    EXPECT_EQ(reply.result, AnnounceResult::full);
    EXPECT_NE(reply.reason.find("this round is full: 2 trainers"), std::string::npos)
        << reply.reason;
}

}  // namespace
}  // namespace dedloc::averaging
