// NativeBackend: dedloc's own averaging. It joins its parts, each with a state of its own, and says
// in which order they learn of a decision:
//
//   Coordinator      rounds                       ChainFollower  applies certificates
//   TrainerRoster    whom rounds count on         StepBooks      what of ours is in a step
//   OrderNews        who is kept out, in words    PaceWatch      a line too slow to follow
//   GradientChecks   of others, in robust runs    the ledger, the store of states, logs on disk
//
// Thread: the network thread.

#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "dedloc/averaging/coordinator.h"
#include "dedloc/collab/averaging_backend.h"
#include "dedloc/collab/gradient_checks.h"
#include "dedloc/collab/member_roster.h"
#include "dedloc/collab/order_news.h"
#include "dedloc/collab/pace_watch.h"
#include "dedloc/collab/step_books.h"
#include "dedloc/replica/certificate_log.h"
#include "dedloc/replica/chain_follower.h"
#include "dedloc/state/store.h"
#include "dedloc/state/transfer.h"
#include "dedloc/validation/ended_orders_judge.h"
#include "dedloc/validation/evidence_log.h"

namespace dedloc::collab {

class NativeBackend final : public AveragingBackend, private averaging::RoundListener {
  public:
    // Errors: as Coordinator::make.
    static Result<std::unique_ptr<AveragingBackend>> make(BackendContext context);
    explicit NativeBackend(BackendContext context);
    ~NativeBackend() override;

    void start() override;
    Task<Result<void>> host(std::shared_ptr<const state::Snapshot> initial) override;
    Task<Result<void>> join(TimePoint deadline) override;
    void set_leaving() override { engine_->set_leaving(true); }
    Task<void> stop() override;

    const consensus::Ledger* ledger() const override { return &ledger_; }
    bool has_open_state() const override;
    void want_round() override;
    Task<void> average(std::shared_ptr<const allreduce::RoundInput> input) override;
    bool own_refused() const override { return engine_->own_refused(); }
    std::vector<consensus::ElementRange> brought_to_own_sums() const override {
        return engine_->brought_to_own_sums();
    }
    validation::GradientValidators* checks() const override;

    void set_left_out(bool left_out) override { engine_->link().set_left_out(left_out); }
    double upload_bytes_per_s() const override { return engine_->link().upload_bytes_per_s(); }
    double download_bytes_per_s() const override { return engine_->link().download_bytes_per_s(); }
    void set_caps(double upload_max, double download_max) override;

    void on_status(const membership::Status& before, const membership::Status& now) override;
    void poll() override;
    void describe(membership::Status& status) const override;
    std::string why_kept_out(const PeerId& peer) const override {
        return orders_.why_kept_out(peer);
    }

  private:
    // averaging::RoundListener
    void round_wanted() override { context_.listener.step_wanted(); }
    void behind(const PeerId& peer) override { follower_->inspect(peer); }
    void voting_for(const consensus::Decision& decision) override { follower_->expect(decision); }
    void order_proved(const robust::Order& order, const Bytes& evidence) override {
        evidence_log_.add(order, evidence);
    }

    // The newest state that was told.
    struct Told {
        Digest hash;
        std::uint64_t step = 0;
    };

    Result<void> prepare();
    replica::ChainFollower::Callbacks follower_callbacks();
    consensus::Voter as_voter() const;
    std::optional<consensus::Decision> decision_before() const;
    void receive_decision(const consensus::Link& link);
    void take_newest_state();
    void begin_anew();
    void poll_pace();

    BackendContext context_;
    consensus::Ledger ledger_;
    OrderNews orders_;
    TrainerRoster roster_;
    StepBooks books_;
    PaceWatch pace_;
    allreduce::PartStore parts_;
    state::SnapshotStore store_;
    replica::CertificateLog certificate_log_;
    validation::EvidenceLog evidence_log_;
    validation::EndedOrdersJudge judge_;
    std::unique_ptr<averaging::Coordinator> engine_;
    std::unique_ptr<replica::ChainFollower> follower_;
    std::unique_ptr<GradientChecks> checks_;  // null: the run makes none
    std::unique_ptr<state::StateServer> state_server_;
    Told told_;
};

}  // namespace dedloc::collab
