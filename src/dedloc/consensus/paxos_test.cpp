// A voter's memory of questions; whole elections are tortured in tests/sim.

#include "dedloc/consensus/paxos.h"

#include <gtest/gtest.h>

#include "dedloc/security/toy_signature.h"

namespace dedloc::consensus {
namespace {

Digest after(std::uint8_t first) {
    Digest digest;
    digest.bytes[0] = first;
    return digest;
}

Instance question(std::uint64_t number) { return {after(99), number, 0}; }

const Bytes one_value(1, 1);
const Bytes another_value(1, 2);

TEST(PaxosAcceptor, does_not_answer_a_question_again_from_which_it_went_on) {
    PaxosAcceptor acceptor;
    EXPECT_EQ(acceptor.accept(after(1), question(1), 0, one_value).answer, Answer::yes);
    EXPECT_EQ(acceptor.accept(after(2), question(2), 0, one_value).answer, Answer::yes);
    EXPECT_EQ(acceptor.accept(after(1), question(1), 3, another_value).answer, Answer::refused);
    EXPECT_EQ(acceptor.prepare(after(1), question(1), 4).answer, Answer::refused);
    // An acceptor knows what it accepted last all the same, after a restart as well.
    PaxosAcceptor restarted(acceptor.record(), {});
    EXPECT_EQ(restarted.prepare(after(1), question(1), 4).answer, Answer::refused);
    const ConsensusReply promise = restarted.prepare(after(2), question(2), 4);
    EXPECT_EQ(promise.answer, Answer::yes);
    EXPECT_EQ(promise.accepted_decision, one_value);
}

TEST(PaxosAcceptor, answers_for_the_same_step_of_a_run_that_was_resumed) {
    PaxosAcceptor acceptor;
    EXPECT_EQ(acceptor.accept(after(1), question(1), 0, one_value).answer, Answer::yes);
    EXPECT_EQ(acceptor.accept(after(2), question(2), 0, one_value).answer, Answer::yes);
    EXPECT_EQ(acceptor.accept(after(3), question(1), 0, another_value).answer, Answer::yes);
    const ConsensusReply promise = acceptor.prepare(after(4), question(2), 1);
    EXPECT_EQ(promise.answer, Answer::yes);
    EXPECT_FALSE(promise.has_accepted);
}

TEST(PaxosAcceptor, begins_a_run_twice_with_the_same_certificate) {
    PaxosAcceptor acceptor;
    EXPECT_EQ(acceptor.accept(after(1), question(1), 0, one_value).answer, Answer::yes);
    EXPECT_EQ(acceptor.accept(after(2), question(2), 0, one_value).answer, Answer::yes);
    acceptor.begin_after(after(1));
    EXPECT_EQ(acceptor.accept(after(1), question(1), 0, another_value).answer, Answer::yes);
}

// Killed after its first vote, or while it prepared, and resumed from the same checkpoint.
TEST(PaxosAcceptor, begins_a_run_again_whose_first_question_is_still_open) {
    PaxosAcceptor voted;
    EXPECT_EQ(voted.accept(after(9), question(9), 0, one_value).answer, Answer::yes);
    EXPECT_EQ(voted.accept(after(1), question(1), 0, one_value).answer, Answer::yes);
    voted.begin_after(after(1));
    EXPECT_EQ(voted.accept(after(1), question(1), 0, another_value).answer, Answer::yes);
    EXPECT_EQ(voted.prepare(after(9), question(9), 4).answer, Answer::refused);

    PaxosAcceptor promised;
    EXPECT_EQ(promised.prepare(after(1), question(1), 7).answer, Answer::yes);
    promised.begin_after(after(1));
    EXPECT_EQ(promised.accept(after(1), question(1), 0, another_value).answer, Answer::yes);
}

TEST(PaxosAcceptor, remembers_a_bounded_number_of_questions) {
    PaxosAcceptor acceptor;
    for (std::size_t i = 0; i < passed_max + 20; ++i)
        (void)acceptor.accept(after(static_cast<std::uint8_t>(i)), question(i), 0, one_value);
    EXPECT_EQ(acceptor.record().passed.size(), passed_max);
    EXPECT_EQ(acceptor.prepare(after(30), question(30), 1).answer, Answer::refused);
}

std::vector<Voter> voters(std::size_t count) {
    std::vector<Voter> all;
    for (std::size_t i = 0; i < count; ++i) all.push_back({security::toy_peer_id(i), 1, true});
    return all;
}

ConsensusReply yes() {
    ConsensusReply reply;
    reply.answer = Answer::yes;
    return reply;
}

// How many honest promises are enough beside one that stands in the way.
std::size_t promises_beside_a_liar(std::size_t count, bool some_lie) {
    Tally tally(voters(count), {}, some_lie);
    tally.disown(security::toy_peer_id(0));
    for (std::size_t promises = 1; promises < count; ++promises) {
        tally.promise(security::toy_peer_id(promises), yes());
        if (tally.promised()) return promises;
    }
    return count;
}

TEST(Tally, one_voter_of_three_that_claims_to_have_accepted_a_false_value_stops_nobody) {
    EXPECT_EQ(promises_beside_a_liar(3, true), 1u) << "all three must vote: one knows enough";
    EXPECT_EQ(promises_beside_a_liar(4, true), 3u);
    EXPECT_EQ(promises_beside_a_liar(5, true), 3u);
    EXPECT_EQ(promises_beside_a_liar(7, true), 5u);
    EXPECT_EQ(promises_beside_a_liar(3, false), 2u);
}

// Any quorum for a value, less those who may lie about it, has somebody among these promises.
TEST(Tally, what_was_decided_is_known_to_an_honest_one_of_those_who_promised) {
    for (std::size_t count = 1; count <= 64; ++count) {
        const std::size_t promises = promises_beside_a_liar(count, true);
        const std::size_t liars = (count - 1) / 3;
        EXPECT_GT(promises + quorum(count, true), count + liars) << count;
    }
}

}  // namespace
}  // namespace dedloc::consensus
