// Whole robust rounds of five members in virtual time: commitments, draw, rows, votes; and one that
// lies, whose messages are changed on their way out.

#include <cstring>
#include <gtest/gtest.h>

#include "dedloc/averaging/coordinator.h"
#include "dedloc/averaging/round_proof.h"
#include "dedloc/security/hash.h"
#include "dedloc/security/hash_list.h"
#include "dedloc/sim/world.h"
#include "dedloc/wire/message.h"

namespace dedloc::averaging {
namespace {

using robust::Offence;
using robust::OrderKind;

constexpr std::uint64_t vector_elements = 320;
constexpr std::size_t members_count = 5;

RoundOptions robust_options() {
    RoundOptions options;
    options.codec = codec::CodecId::fp32;
    options.vector_count = vector_elements;
    options.part_elements_max = 32;
    options.part_elements_min = 16;
    options.clip_rule.tau = 20;
    options.reducer = std::make_shared<allreduce::CenteredClipReducer>(options.clip_rule);
    options.proves = true;
    options.byzantine_quorum = true;
    return options;
}

// A trainer without a model: its state is the name of the newest decision.
class RobustMember final : public Roster, public RoundListener, public events::Teller {
  public:
    RobustMember(sim::SimNode& node, RoundOptions options)
        : node_(node), parts_(4u << 20), ledger_(verifier_, 16), scope_(node.runtime().executor) {
        auto made = Coordinator::make({node.runtime(),
                                       node.host(),
                                       node.signer(),
                                       verifier_,
                                       ledger_,
                                       parts_,
                                       *this,
                                       *this,
                                       *this,
                                       std::move(options)});
        coordinator_ = *std::move(made);
    }

    void begin(ByteView genesis, const Digest& state) {
        ASSERT_TRUE(ledger_.start_from(genesis));
        ledger_.on_decision([this](const consensus::Link& link) { coordinator_->decided(link); });
        ledger_.set_state(state);
        coordinator_->start();
        scope_.spawn("train", train());
    }
    Task<void> stop() {
        co_await scope_.stop();
        co_await coordinator_->stop();
    }

    Coordinator& coordinator() { return *coordinator_; }
    const consensus::Ledger& ledger() const { return ledger_; }
    std::uint64_t steps() const { return ledger_.base().instance.step; }
    sim::SimNode& node() { return node_; }

    std::vector<PeerId> others;
    std::vector<std::string> notes;
    std::uint64_t proved_rounds = 0;

    std::vector<PeerId> expected(const consensus::Base& base) const override {
        std::vector<PeerId> allowed_ones = others;
        std::erase_if(allowed_ones,
                      [&](const PeerId& peer) { return base.barring(peer) != nullptr; });
        return allowed_ones;
    }
    std::vector<PeerId> live_trainers() const override { return others; }
    std::size_t voters_heard_of(const consensus::Base& base) const override {
        return base.voters.size();
    }
    bool allowed(const PeerId&) const override { return true; }
    double micro_batch_s() const override { return 0.1; }
    double upload_bytes_per_s(const PeerId&) const override { return 0; }
    Ok check_samples(const PeerId&, const consensus::MemberInput&) const override { return {}; }
    void round_wanted() override {}
    void voting_for(const consensus::Decision&) override {}
    void behind(const PeerId&) override {}
    void tell(events::Any, PeerId, std::string text) override { notes.push_back(std::move(text)); }
    void proved(const ProvedRound&) override { ++proved_rounds; }

  private:
    Task<void> train() {
        for (std::uint64_t batch = 0;; ++batch) {
            co_await node_.clock().sleep_for(200ms);
            auto input = std::make_shared<allreduce::RoundInput>();
            input->input.fresh = {batch * 4, batch * 4 + 4, 0};
            Random random(base::mix64(batch * 100 + node_.index()));
            for (std::uint64_t i = 0; i < vector_elements; ++i)
                input->sum.push_back(static_cast<float>(4 + 4 * random.normal()));
            const std::uint64_t step = steps();
            while (steps() == step) co_await coordinator_->participate(input);
            ledger_.set_state(ledger_.base().previous);
            coordinator_->ledger_moved();
        }
    }

    sim::SimNode& node_;
    security::ToyVerifier verifier_;
    allreduce::PartStore parts_;
    consensus::Ledger ledger_;
    std::unique_ptr<Coordinator> coordinator_;
    runtime::Scope scope_;
};

class RobustRounds : public ::testing::Test {
  protected:
    RobustRounds() : world_(7, {}) {
        for (std::size_t i = 0; i < members_count; ++i)
            members_.push_back(std::make_unique<RobustMember>(world_.add_node(), robust_options()));
        for (auto& member : members_)
            for (auto& other : members_)
                if (other != member) {
                    member->others.push_back(other->node().id());
                    member->node().host().add_addresses(other->node().id(),
                                                        {other->node().address()});
                }
    }
    ~RobustRounds() override {
        for (auto& member : members_) world_.run_task(member->stop());
    }

    void begin() {
        for (std::size_t i = 1; i < members_.size(); ++i)
            world_.run_task(connect(*members_[i], *members_[0]));
        const Digest run = security::sha256(as_bytes("run"));
        const Digest state = security::sha256(as_bytes("start"));
        RobustMember& host = *members_[0];
        const consensus::Voter voter{host.node().id(), host.coordinator().incarnation(), true};
        const Bytes genesis =
            consensus::make_genesis(run, state, voter, host.node().signer(), 0, 0);
        for (auto& member : members_) member->begin(genesis, state);
    }
    static Task<void> connect(RobustMember& from, RobustMember& to) {
        const TimePoint deadline = from.node().clock().now() + Duration(5s);
        (void)co_await from.node().host().dial(
            to.node().address() + "/p2p/" + to.node().id().text(), deadline);
    }
    bool reach(std::uint64_t steps) {
        return world_.run_until([&] { return members_[0]->steps() >= steps; }, 120s);
    }
    const robust::Order* order_about(std::size_t member) const {
        const PeerId& peer = members_[member]->node().id();
        for (const robust::Order& order : members_[0]->ledger().base().orders.list())
            if (order.subject == peer) return &order;
        return nullptr;
    }
    // Is this one out, and nobody else, by that order?
    void expect_only(std::size_t liar, OrderKind kind, Offence offence) {
        const robust::Order* const order = order_about(liar);
        ASSERT_NE(order, nullptr);
        EXPECT_EQ(order->kind, kind);
        EXPECT_EQ(order->offence, offence) << robust::in_words(*order);
        EXPECT_EQ(members_[0]->ledger().base().orders.list().size(), 1u);
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

    sim::World world_;
    std::vector<std::unique_ptr<RobustMember>> members_;
};

TEST_F(RobustRounds, AreProvedBeforeTheyAreCommitted) {
    begin();
    ASSERT_TRUE(reach(6)) << members_[0]->steps();
    const consensus::Link* const commit = members_[0]->ledger().newest_commit();
    ASSERT_NE(commit, nullptr);
    EXPECT_FALSE(commit->decision.proof.is_zero());
    EXPECT_EQ(commit->plan->members.size(), members_count);
    EXPECT_TRUE(members_[0]->ledger().base().orders.list().empty());
    EXPECT_GE(members_[0]->proved_rounds, 5u);
    EXPECT_GE(members_[3]->proved_rounds, 3u);
}

TEST_F(RobustRounds, AnOwnerThatReducesWronglyIsBannedBeforeAnythingOfItIsCertified) {
    constexpr std::size_t liar = 3;
    world_.on_send([&](const sim::World::Outgoing& message) {
        if (message.from == liar) shift_average(liar, message);
    });
    begin();
    ASSERT_TRUE(world_.run_until([&] { return order_about(liar) != nullptr; }, 60s));
    expect_only(liar, OrderKind::ban, Offence::wrong_reduction);
    ASSERT_TRUE(reach(members_[0]->steps() + 3));
    for (const consensus::PlanMember& member : members_[0]->ledger().newest_commit()->plan->members)
        EXPECT_NE(member.peer, members_[liar]->node().id());
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
