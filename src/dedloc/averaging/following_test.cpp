// How a member deals with its leader, by what that one answers: a leader written by hand.

#include "dedloc/averaging/following.h"

#include <functional>

#include "dedloc/averaging/coordinator_testing.h"

namespace dedloc::averaging {
namespace {

using LeaderSays = std::function<Result<Bytes>(const Announce&)>;

// The only voter of a run, which says what a test wants and begins no round.
class WrittenLeader {
  public:
    explicit WrittenLeader(sim::SimNode& node) : node_(node), handlers_(node.host()) {
        handlers_.on_call(announce_method,
                          [this](PeerId, Bytes request) { return answer(std::move(request)); });
    }
    Task<void> stop() { return handlers_.stop(); }

    Bytes genesis() const {
        return consensus::make_genesis(run_digest(),
                                       first_state(),
                                       consensus::Voter{node_.id(), 1, true},
                                       node_.signer(),
                                       0,
                                       0);
    }

    LeaderSays says = [](const Announce&) { return wire::encode(AnnounceReply{}); };
    std::vector<Announce> heard;
    std::vector<TimePoint> heard_at;

  private:
    Task<Result<Bytes>> answer(Bytes request) {
        auto announce = wire::decode<Announce>(request);
        EXPECT_TRUE(announce);
        if (!announce) co_return make_error(ErrorKind::bad_input, "unreadable");
        heard.push_back(*announce);
        heard_at.push_back(node_.clock().now());
        co_return says(*announce);
    }

    sim::SimNode& node_;
    p2p::Handlers handlers_;
};

class FollowingTest : public RoundTest {
  protected:
    FollowingTest() : leaders_node_(world_.add_node()), leader_(leaders_node_) {}
    ~FollowingTest() override { world_.run_task(leader_.stop()); }

    void begin() {
        introduce(member_, leaders_node_);
        member_.begin(leader_.genesis());
        member_.hand_in({0, 4, 0}, done_);
    }
    void say(AnnounceResult result, std::string reason = {}) {
        leader_.says = [result, reason](const Announce&) {
            AnnounceReply reply;
            reply.result = result;
            reply.reason = reason;
            return wire::encode(reply);
        };
    }
    bool tells(std::string_view text, Duration at_most) {
        return world_.run_until([&] { return member_.has_told(text); }, at_most);
    }

    sim::SimNode& leaders_node_;
    WrittenLeader leader_;
    RoundTrainer& member_ = add_trainer();
    bool done_ = false;
};

TEST_F(FollowingTest, the_leader_hears_what_the_member_brings_and_where_it_stands) {
    begin();
    ASSERT_TRUE(world_.run_until([&] { return !leader_.heard.empty(); }, 5s));
    const Announce& announce = leader_.heard.front();
    EXPECT_EQ(announce.input.fresh, (consensus::CounterRange{0, 4, 0}));
    EXPECT_EQ(announce.previous, member_.base().previous);
    EXPECT_EQ(announce.state, first_state());
    EXPECT_EQ(announce.incarnation, member_.coordinator().incarnation());
}

TEST_F(FollowingTest, a_leader_that_accepts_is_asked_again_and_again) {
    begin();
    ASSERT_TRUE(world_.run_until([&] { return leader_.heard.size() >= 4; }, 5s));
    EXPECT_FALSE(done_) << "no round came about";
}

TEST_F(FollowingTest, a_leader_that_begins_no_round_is_passed_over) {
    begin();
    EXPECT_TRUE(tells("its round does not come about", 120s));
    EXPECT_GT(leader_.heard.size(), 4u);
}

TEST_F(FollowingTest, a_leader_that_refuses_is_suspected_with_its_reason) {
    say(AnnounceResult::refused, "your contribution is too long");
    begin();
    EXPECT_TRUE(tells("it refused our announcement: your contribution is too long", 10s));
}

TEST_F(FollowingTest, an_answer_that_cannot_be_read_makes_a_leader_suspect) {
    leader_.says = [](const Announce&) { return Bytes(20, 0xff); };
    begin();
    EXPECT_TRUE(tells("its answer cannot be read", 10s));
}

TEST_F(FollowingTest, a_full_round_is_told_of_once_and_asked_for_again_after_a_pause) {
    say(AnnounceResult::full, "this round is full");
    begin();
    ASSERT_TRUE(world_.run_until([&] { return leader_.heard.size() >= 3; }, 30s));
    for (std::size_t i = 1; i < 3; ++i)
        EXPECT_GE(leader_.heard_at[i] - leader_.heard_at[i - 1], full_round_pause);
    EXPECT_EQ(std::ranges::count(member_.told, "this round is full"), 1);
}

TEST_F(FollowingTest, a_leader_that_is_behind_gets_the_certificates_that_we_have) {
    std::size_t got = 0;
    p2p::Handlers certificates(leaders_node_.host());
    certificates.on_call(consensus::certificate_method,
                         [&got](PeerId, Bytes) -> Task<Result<Bytes>> {
                             ++got;
                             co_return Bytes{};
                         });
    say(AnnounceResult::i_am_behind);
    begin();
    EXPECT_TRUE(world_.run_until([&] { return got > 0; }, 10s));
    world_.run_task(certificates.stop());
}

TEST_F(FollowingTest, a_leader_that_sends_us_nothing_but_says_we_are_behind_is_loaded_from) {
    say(AnnounceResult::you_are_behind);
    begin();
    ASSERT_TRUE(world_.run_until([&] { return !member_.behind_of.empty(); }, 10s));
    EXPECT_EQ(member_.behind_of.front(), leaders_node_.id());
}

}  // namespace
}  // namespace dedloc::averaging
