// The engine behind collaboration.h: it lives from start() to stop(), and puts its parts together,
// each with a state of its own:
//
//   Membership        who is there            RunAccess     who may be
//   AveragingBackend  how steps come about    TrainerSteps  what the trainer brings and gets
//   Meeting           finding the others      RunLog        where events come together
//
// Thread: the network thread, except where collaboration.h says "any thread".

#pragma once
#include <memory>
#include <optional>

#include "dedloc/collab/lab.h"
#include "dedloc/collab/meeting.h"
#include "dedloc/collab/run_access.h"
#include "dedloc/collab/run_log.h"
#include "dedloc/collab/trainer_steps.h"
#include "dedloc/collab/waiting_file.h"

namespace dedloc::collab {

class CollaborationImpl final : public Collaboration, private BackendListener {
  public:
    CollaborationImpl(runtime::Node node,
                      p2p::Host& host,
                      CollaborationOptions options,
                      events::EventSink* events,
                      Planted planted);
    ~CollaborationImpl() override;
    // Makes its parts, which can fail; before start().
    Result<void> prepare(const security::Signer& signer, const security::Verifier& verifier);

    Task<Result<void>> start() override;
    Task<void> leave(Duration grace_period) override;
    void leave_within(Duration grace_period) override;
    Task<void> stop() override;

    // The trainer's side.
    std::shared_ptr<const state::Snapshot> state() const override { return steps_->state(); }
    void report(std::uint64_t samples, double loss_sum, double seconds) override {
        steps_->report(samples, loss_sum, seconds);
    }
    void report_not_finite(std::uint64_t samples) override { steps_->report_not_finite(samples); }
    void trainer_runs(bool runs) override { steps_->trainer_runs(runs); }
    void compute_ahead() override { computed_.contributions.compute_ahead(); }
    bool may_compute() const override { return steps_->may_compute(); }
    void set_paused(bool paused) override { steps_->set_paused(paused); }
    bool paused() const override { return steps_->paused(); }
    bool may_compute_ahead() const override { return steps_->may_compute_ahead(); }
    void forget_ahead(std::uint64_t samples) override {
        computed_.contributions.forget_ahead(samples);
    }
    bool step_due() const override { return steps_->is_due(); }
    Task<Result<StepOutcome>> step(Contribution contribution) override;
    bool stopped() const override { return ending_.stopped(); }
    bool check_waits() const override { return steps_->check_waits(); }
    Task<Result<std::optional<validation::CheckJob>>> take_check() override;
    Task<Result<void>> checked(validation::CheckResult result) override;

    void report_evaluation(std::uint64_t step, const Evaluation& evaluation) override;
    std::shared_ptr<membership::Authorizer> authorizer() const override {
        return access_->authorizer();
    }
    membership::Status status() const override;
    std::vector<membership::Status> peers() const override;
    Digest branch() const override { return backend_->branch(); }
    std::string join_string() const override;
    Accounts accounts() const override;
    void set_caps(double upload_max, double download_max) override;
    averaging::AggregatorWork assistance() const override { return backend_->work(); }
    Bytes chain() const override { return backend_->chain(); }

  private:
    // BackendListener
    void certified(bool new_branch) override;
    void decided(BackOff::Fate fate, const PeerId& leader) override {
        steps_->slow_link().decided(fate, leader);
    }
    void state_expected(std::shared_ptr<const state::Snapshot> state) override {
        steps_->state_expected(std::move(state));
    }
    void state_is(std::shared_ptr<const state::Snapshot> state) override {
        steps_->state_is(std::move(state));
    }
    void applied(const events::StepMade& made) override;
    void state_replaced() override;
    void download_progress(double progress) override { publisher_.set_download_progress(progress); }
    void step_wanted() override { steps_->make_due(); }
    void kept_out(std::string why) override;

    Task<Result<void>> start_as_newcomer();
    Task<Result<void>> start_again();
    Task<Result<void>> join_those_met(TimePoint deadline);
    Task<void> leave_as_helper(Duration grace_period);
    bool is_waited_for() const;
    Task<void> watch_progress();
    Task<void> look_for_lost_steps();
    membership::Membership::Callbacks membership_callbacks();
    void on_status(const membership::Status& before, const membership::Status& now);
    void check_stop_conditions();

    runtime::Node node_;
    p2p::Host& host_;
    const CollaborationOptions options_;
    const Planted planted_;
    Computed computed_;
    membership::StatusPublisher publisher_;
    RunLog log_;
    Ending ending_;
    runtime::Event changed_;
    std::unique_ptr<RunAccess> access_;
    std::unique_ptr<membership::Membership> membership_;
    std::unique_ptr<AveragingBackend> backend_;
    std::optional<Shared> shared_;
    std::unique_ptr<TrainerSteps> steps_;
    std::unique_ptr<Meeting> meeting_;
    std::unique_ptr<membership::AttachmentServer> attachment_server_;
    std::optional<WaitingFile> waiting_;  // of a trainer in a run with fragments
    Accounts accounts_;
    runtime::Scope scope_;
};

}  // namespace dedloc::collab
