// NativeBackend: dedloc's own averaging. Glue between the round engine, the ledger of certificates,
// the chain follower, which applies them, and the store of states; and the roster that rounds ask
// who takes part.
//
// Thread: the network thread.

#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "dedloc/averaging/coordinator.h"
#include "dedloc/collab/averaging_backend.h"
#include "dedloc/replica/certificate_log.h"
#include "dedloc/replica/chain_follower.h"
#include "dedloc/replica/follow_pace.h"
#include "dedloc/state/store.h"
#include "dedloc/state/transfer.h"
#include "dedloc/validation/ended_orders_judge.h"
#include "dedloc/validation/evidence_log.h"
#include "dedloc/validation/validators.h"

namespace dedloc::collab {

class NativeBackend final : public AveragingBackend,
                            private averaging::Roster,
                            private averaging::RoundListener {
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

    bool started() const override { return ledger_.started(); }
    std::uint64_t open_step() const override;
    Digest branch() const override { return ledger_.base().instance.branch; }
    bool has_open_state() const override;
    bool works_on_open_step(const membership::Status& status) const override;

    void want_round() override;
    Task<void> average(std::shared_ptr<const allreduce::RoundInput> input) override;
    bool own_refused() const override { return engine_->own_refused(); }
    void set_left_out(bool left_out) override { engine_->link().set_left_out(left_out); }

    double upload_bytes_per_s() const override { return engine_->link().upload_bytes_per_s(); }
    double download_bytes_per_s() const override { return engine_->link().download_bytes_per_s(); }
    void set_caps(double upload_max, double download_max) override;

    void on_status(const membership::Status& before, const membership::Status& now) override;
    void look() override;
    void describe(membership::Status& status) const override;
    std::optional<run::Anchor> anchor() const override;
    const consensus::Base* base() const override {
        return ledger_.started() ? &ledger_.base() : nullptr;
    }
    Bytes chain() const override { return encoded_tail(ledger_); }
    std::string why_kept_out(const PeerId& peer) const override;
    bool check_waits() const override { return validators_ && validators_->work_waits(); }
    std::optional<validation::CheckJob> take_check() override;
    Task<void> checked(validation::CheckResult result) override;
    bool holds_back() const override { return validators_ && validators_->holds_back(); }

  private:
    // averaging::Roster
    std::vector<PeerId> expected(const consensus::Base& base) const override;
    bool has_contributed(const PeerId& peer) const override;
    std::vector<PeerId> live_trainers() const override;
    std::vector<PeerId> newcomers() const override;
    std::size_t voters_heard_of(const consensus::Base& base) const override;
    bool chain_goes_on(const consensus::Base& base) const override;
    bool loads_state() const override { return follower_->loads_state(); }
    std::size_t voters_of_our_branch(const consensus::Base& base) const override;
    bool allowed(const PeerId& peer) const override;
    bool is_put_out(const PeerId& peer) const override;
    std::string refusal(const PeerId& peer) const override;
    double micro_batch_s() const override;
    double upload_bytes_per_s(const PeerId& peer) const override;
    Ok check_samples(const PeerId& peer, const consensus::MemberInput& input) const override;
    // averaging::RoundListener
    void round_wanted() override { context_.listener.step_wanted(); }
    void behind(const PeerId& peer) override { follower_->look_at(peer); }
    void voting_for(const consensus::Decision& decision) override { follower_->expect(decision); }
    void order_proved(const robust::Order& order, const Bytes& evidence) override;

    Result<void> prepare();
    void prepare_checks();
    replica::ChainFollower::Callbacks follower_callbacks();
    consensus::Voter as_voter() const;
    std::optional<consensus::Decision> decision_before() const;
    consensus::Protection protection_before() const;
    std::vector<robust::Order> orders_before(std::uint64_t step) const;
    bool arrives_at(const membership::KnownPeer& peer, const consensus::Base& base) const;
    std::size_t count_voters(const consensus::Base& base,
                             const std::function<bool(const membership::Status&)>& counts) const;
    void on_decision(const consensus::Link& link);
    void tell_of_orders(const robust::OrderChanges& changes);
    std::string name_of(const PeerId& peer) const;
    std::string order_for_people(const robust::Order& order) const;
    std::string order_for_us(const robust::Order& order) const;
    void on_commit(const consensus::Decision& decision,
                   std::shared_ptr<const consensus::Plan> whole_plan);
    BackOff::Fate fate_of(const consensus::Plan& plan,
                          const consensus::Decision& decision,
                          std::optional<std::size_t> mine) const;
    void on_applied(const consensus::Decision& decision,
                    const consensus::Plan& plan,
                    const optim::StepReport& optimizer);
    void begin_anew();
    void take_newest();
    void look_at_pace();

    BackendContext context_;
    consensus::Ledger ledger_;
    allreduce::PartStore parts_;
    state::SnapshotStore store_;
    replica::CertificateLog certificate_log_;
    validation::EvidenceLog evidence_log_;
    validation::EndedOrdersJudge judge_;
    std::unique_ptr<averaging::Coordinator> engine_;
    std::unique_ptr<replica::ChainFollower> follower_;
    std::unique_ptr<validation::Validators> validators_;  // where gradients are checked
    std::vector<consensus::Voter> voters_;                // of the decision before
    std::unique_ptr<state::StateServer> state_server_;
    Digest state_hash_;  // of the newest state that was told
    std::uint64_t state_step_ = 0;
    replica::FollowPace pace_;
};

}  // namespace dedloc::collab
