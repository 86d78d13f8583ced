// For tests of rounds: trainers without a model that hand in contributions in virtual time. Of the
// tests only.

#pragma once
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "dedloc/averaging/coordinator.h"
#include "dedloc/base/random.h"
#include "dedloc/security/hash.h"
#include "dedloc/security/toy_signature.h"
#include "dedloc/sim/world.h"
#include "dedloc/wire/message.h"

namespace dedloc::averaging {

inline RoundOptions round_options() {
    RoundOptions options;
    options.codec = codec::CodecId::fp32;
    options.vector_count = 64;
    options.part_elements_max = 32;
    options.part_elements_min = 16;
    return options;
}

inline Digest run_digest() { return security::sha256(as_bytes("run")); }
inline Digest first_state() { return security::sha256(as_bytes("start")); }

// A trainer whose state is the name of the newest decision.
class RoundTrainer final : public Roster, public RoundListener, public events::Teller {
  public:
    explicit RoundTrainer(sim::SimNode& node, RoundOptions options = round_options())
        : node_(node),
          elements_(options.vector_count),
          parts_(4u << 20),
          ledger_(verifier_, 16),
          scope_(node.runtime().executor) {
        coordinator_ = *Coordinator::make({node.runtime(),
                                           node.host(),
                                           node.signer(),
                                           verifier_,
                                           ledger_,
                                           parts_,
                                           *this,
                                           *this,
                                           *this,
                                           std::move(options)});
    }

    void begin(ByteView genesis) {
        ASSERT_TRUE(ledger_.start_from(genesis));
        ledger_.on_decision([this](const consensus::Link& link) {
            coordinator_->decided(link);
            ledger_.set_state(ledger_.base().previous);
            coordinator_->ledger_moved();
        });
        ledger_.set_state(first_state());
        coordinator_->start();
    }
    // Hands in four samples a batch, one batch a step, until it is stopped.
    void train() { scope_.spawn("train", train_on()); }
    // Hands in this contribution to the open step; `done` is set when participate() returns.
    void hand_in(consensus::CounterRange samples, bool& done) {
        scope_.spawn("hand in", hand_in_once(samples, &done));
    }
    Task<void> stop() {
        co_await scope_.stop();
        co_await coordinator_->stop();
    }

    consensus::Voter voter() const { return {node_.id(), coordinator_->incarnation(), true}; }
    Coordinator& coordinator() { return *coordinator_; }
    const consensus::Ledger& ledger() const { return ledger_; }
    const consensus::Base& base() const { return ledger_.base(); }
    std::uint64_t steps() const { return ledger_.base().instance.step; }
    sim::SimNode& node() { return node_; }

    std::vector<PeerId> others{};
    Ok samples_are{};                 // what check_samples() answers
    std::vector<std::string> told{};  // kind, then text
    std::vector<PeerId> behind_of{};
    int wanted = 0;
    std::uint64_t proved_rounds = 0;

    bool has_told(std::string_view text) const {
        return std::ranges::any_of(
            told, [&](const std::string& line) { return line.find(text) != std::string::npos; });
    }

    std::vector<PeerId> expected(const consensus::Base& base) const override {
        std::vector<PeerId> expected = others;
        std::erase_if(expected, [&](const PeerId& peer) { return base.barring(peer) != nullptr; });
        return expected;
    }
    std::vector<PeerId> live_trainers() const override { return others; }
    std::size_t voters_heard_of(const consensus::Base& base) const override {
        return base.voters.size();
    }
    bool allowed(const PeerId&) const override { return true; }
    double micro_batch_s() const override { return 0.1; }
    double upload_bytes_per_s(const PeerId&) const override { return 0; }
    Ok check_samples(const PeerId&, const consensus::MemberInput&) const override {
        return samples_are;
    }
    void round_wanted() override { ++wanted; }
    void voting_for(const consensus::Decision&) override {}
    void behind(const PeerId& peer) override { behind_of.push_back(peer); }
    void tell(events::Any, PeerId, std::string text) override { told.push_back(std::move(text)); }
    void proved(const ProvedRound&) override { ++proved_rounds; }

  private:
    std::shared_ptr<allreduce::RoundInput> input_of(consensus::CounterRange samples) const {
        auto input = std::make_shared<allreduce::RoundInput>();
        input->input.fresh = samples;
        base::Random random(base::mix64(samples.begin * 25 + node_.index()));
        for (std::uint64_t i = 0; i < elements_; ++i)
            input->sum.push_back(static_cast<float>(4 + 4 * random.normal()));
        return input;
    }
    Task<void> hand_in_once(consensus::CounterRange samples, bool* done) {
        co_await coordinator_->participate(input_of(samples));
        *done = true;
    }
    Task<void> train_on() {
        for (std::uint64_t batch = 0;; ++batch) {
            co_await node_.clock().sleep_for(200ms);
            const auto input = input_of({batch * 4, batch * 4 + 4, 0});
            const std::uint64_t step = steps();
            while (steps() == step) co_await coordinator_->participate(input);
        }
    }

    sim::SimNode& node_;
    std::uint64_t elements_;
    security::ToyVerifier verifier_;
    allreduce::PartStore parts_;
    consensus::Ledger ledger_;
    std::unique_ptr<Coordinator> coordinator_;
    runtime::Scope scope_;
};

// Machines that know each other's addresses, and a genesis whose only voter is the first trainer.
class RoundTest : public ::testing::Test {
  protected:
    RoundTest() : world_(7, {}) {}
    ~RoundTest() override {
        for (auto& trainer : trainers_) world_.run_task(trainer->stop());
    }

    RoundTrainer& add_trainer(RoundOptions options = round_options()) {
        trainers_.push_back(std::make_unique<RoundTrainer>(world_.add_node(), std::move(options)));
        return *trainers_.back();
    }
    Bytes genesis() {
        RoundTrainer& host = *trainers_.front();
        return consensus::make_genesis(
            run_digest(), first_state(), host.voter(), host.node().signer(), 0, 0);
    }
    void begin_all() {
        for (auto& trainer : trainers_)
            for (auto& other : trainers_)
                if (other != trainer) introduce(*trainer, other->node());
        const Bytes begun = genesis();
        for (auto& trainer : trainers_) trainer->begin(begun);
    }
    void introduce(RoundTrainer& trainer, sim::SimNode& other) {
        trainer.others.push_back(other.id());
        trainer.node().host().add_addresses(other.id(), {other.address()});
        other.host().add_addresses(trainer.node().id(), {trainer.node().address()});
        world_.run_task(dial(trainer.node(), other));
    }
    static Task<void> dial(sim::SimNode& from, sim::SimNode& to) {
        const TimePoint deadline = from.clock().now() + Duration(5s);
        (void)co_await from.host().dial(to.address() + "/p2p/" + to.id().text(), deadline);
    }

    sim::World world_;
    std::vector<std::unique_ptr<RoundTrainer>> trainers_;
};

}  // namespace dedloc::averaging
