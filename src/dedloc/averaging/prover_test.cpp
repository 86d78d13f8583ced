// The rules of a proof (prover.h) in whole robust rounds of five members in virtual time:
// commitments, draw, rows, votes; and a member that lies, whose messages are changed on their way.

#include <cstring>

#include "dedloc/averaging/coordinator_testing.h"
#include "dedloc/averaging/round_proof.h"
#include "dedloc/security/hash_list.h"

namespace dedloc::averaging {
namespace {

using robust::Offence;
using robust::OrderKind;

constexpr std::size_t members_count = 5;

RoundOptions robust_options() {
    RoundOptions options = round_options();
    options.vector_count = 320;
    options.clip_rule.tau = 20;
    options.reducer = std::make_shared<allreduce::CenteredClipReducer>(options.clip_rule);
    options.proves = true;
    options.byzantine_quorum = true;
    return options;
}

class RobustRounds : public RoundTest {
  protected:
    RobustRounds() {
        for (std::size_t i = 0; i < members_count; ++i) add_trainer(robust_options());
    }

    void begin() {
        begin_all();
        for (auto& trainer : trainers_) trainer->train();
    }
    bool reach(std::uint64_t steps) {
        return world_.run_until([&] { return trainers_[0]->steps() >= steps; }, 120s);
    }
    const robust::Order* order_about(std::size_t member) const {
        const PeerId& peer = trainers_[member]->node().id();
        for (const robust::Order& order : trainers_[0]->ledger().base().orders.list())
            if (order.subject == peer) return &order;
        return nullptr;
    }
    // Is this one out, and nobody else, by that order?
    void expect_only(std::size_t liar, OrderKind kind, Offence offence) {
        const robust::Order* const order = order_about(liar);
        ASSERT_NE(order, nullptr);
        EXPECT_EQ(order->kind, kind);
        EXPECT_EQ(order->offence, offence) << robust::in_words(*order);
        EXPECT_EQ(trainers_[0]->ledger().base().orders.list().size(), 1u);
    }

    // As an owner, the same way towards everybody.
    void shift_average(std::size_t liar, const sim::World::Outgoing& message) {
        if (message.method != allreduce::parts_method || !message.is_answer ||
            world_.now() < TimePoint{5s})
            return;
        auto data = wire::decode<allreduce::FinishedPartData>(message.payload);
        if (!data || data->encoded.empty()) return;
        Bytes encoded = to_bytes(data->encoded);
        const float shifted = 9;
        std::memcpy(encoded.data(), &shifted, sizeof shifted);
        data->encoded = encoded;
        data->header.digest = security::hash_list(encoded);
        data->header.signature =
            world_.node(liar).signer().sign(consensus::part_domain, data->header.signed_bytes());
        message.payload = wire::encode(*data);
    }
};

TEST_F(RobustRounds, AreProvedBeforeTheyAreCommitted) {
    begin();
    ASSERT_TRUE(reach(6)) << trainers_[0]->steps();
    const consensus::Link* const commit = trainers_[0]->ledger().newest_commit();
    ASSERT_NE(commit, nullptr);
    EXPECT_FALSE(commit->decision.proof.is_zero());
    EXPECT_EQ(commit->plan->members.size(), members_count);
    EXPECT_TRUE(trainers_[0]->ledger().base().orders.list().empty());
    EXPECT_GE(trainers_[0]->proved_rounds, 5u);
    EXPECT_GE(trainers_[3]->proved_rounds, 3u);
}

TEST_F(RobustRounds, AnOwnerThatReducesWronglyIsBannedBeforeAnythingOfItIsCertified) {
    constexpr std::size_t liar = 3;
    world_.on_send([&](const sim::World::Outgoing& message) {
        if (message.from == liar) shift_average(liar, message);
    });
    begin();
    ASSERT_TRUE(world_.run_until([&] { return order_about(liar) != nullptr; }, 60s));
    expect_only(liar, OrderKind::ban, Offence::wrong_reduction);
    ASSERT_TRUE(reach(trainers_[0]->steps() + 3));
    for (const consensus::PlanMember& member :
         trainers_[0]->ledger().newest_commit()->plan->members)
        EXPECT_NE(member.peer, trainers_[liar]->node().id());
}

TEST_F(RobustRounds, AnOwnerThatShowsNobodyWhatItReducedIsEliminatedAlone) {
    constexpr std::size_t liar = 3;
    world_.on_send([&](const sim::World::Outgoing& message) {
        if (message.from != liar) return;
        if (message.method == input_method && message.is_answer) message.payload.clear();
        shift_average(liar, message);
    });
    begin();
    ASSERT_TRUE(world_.run_until([&] { return order_about(liar) != nullptr; }, 60s));
    expect_only(liar, OrderKind::eliminate, Offence::unjudged);
}

TEST_F(RobustRounds, AMemberWhoseRowsAreFalseIsBanned) {
    constexpr std::size_t liar = 2;
    world_.on_send([&](const sim::World::Outgoing& message) {
        if (message.from != liar || message.method != draw_method || !message.is_answer ||
            world_.now() < TimePoint{5s})
            return;
        auto said = wire::decode<Objections>(message.payload);
        if (!said || said->answer.empty()) return;
        SignedBy& mine = said->answer.front();
        auto answer = wire::decode<Answer>(mine.payload);
        ASSERT_TRUE(answer);
        auto rows = robust::decode_rows(answer->rows, answer->rows.size() / robust::row_bytes);
        ASSERT_TRUE(rows);
        for (robust::Row& row : *rows) row.contribution[1] += 1;
        answer->rows = robust::encode_rows(*rows);
        mine.payload = wire::encode(*answer);
        mine.signature = world_.node(liar).signer().sign(answer_domain, mine.payload);
        message.payload = wire::encode(*said);
    });
    begin();
    ASSERT_TRUE(world_.run_until([&] { return order_about(liar) != nullptr; }, 60s));
    expect_only(liar, OrderKind::ban, Offence::false_row);
}

}  // namespace
}  // namespace dedloc::averaging
