// The engine behind collaboration.h: puts membership, the averaging backend, contributions and the
// trainer together. One file for its life (collaboration.cpp), one for the trainer's side
// (steps.cpp).
//
// Thread: the network thread; what a trainer's thread touches is atomic or behind a mutex.

#pragma once
#include <atomic>
#include <memory>

#include "dedloc/admission/admission_service.h"
#include "dedloc/admission/revocation_judge.h"
#include "dedloc/collab/averaging_backend.h"
#include "dedloc/collab/collaboration.h"
#include "dedloc/collab/not_finite_tally.h"
#include "dedloc/events/event_rate.h"
#include "dedloc/events/peer_names.h"
#include "dedloc/membership/status_publisher.h"
#include "dedloc/replica/newest_state.h"

namespace dedloc::collab {

class CollaborationImpl final : public Collaboration,
                                private BackendListener,
                                private events::Teller {
  public:
    CollaborationImpl(runtime::Node node,
                      p2p::Host& host,
                      Options options,
                      events::EventSink* events);
    ~CollaborationImpl() override;

    Task<Result<void>> start() override;
    Task<void> leave(Duration patience) override;
    Task<void> stop() override;
    std::shared_ptr<const state::Snapshot> state() const override { return state_.get(); }
    void report(std::uint64_t samples, double loss_sum, double seconds) override;
    void report_not_finite(std::uint64_t samples) override { not_finite_.add(samples); }
    void trainer_runs(bool runs) override { trainer_runs_ = runs; }
    void compute_ahead() override { contributions_.compute_ahead(); }
    bool may_compute() const override { return !rests(); }
    bool may_compute_ahead() const override;
    void forget_ahead(std::uint64_t samples) override { contributions_.forget_ahead(samples); }
    bool step_due() const override { return step_due_ || ending_.over || leaving_.begun; }
    Task<Result<StepOutcome>> step(Contribution contribution) override;
    bool stopped() const override { return ending_.over || leaving_.begun; }
    bool check_waits() const override { return backend_->check_waits(); }
    Task<Result<std::optional<validation::CheckJob>>> take_check() override;
    Task<Result<void>> checked(validation::CheckResult result) override;
    void report_evaluation(std::uint64_t step, const Evaluation& evaluation) override;
    membership::Status status() const override;
    std::vector<membership::Status> peers() const override;
    Digest branch() const override { return backend_->branch(); }
    std::string join_string() const override;
    Accounts accounts() const override;
    void set_caps(double upload_max, double download_max) override;
    averaging::AggregatorWork assistance() const override { return backend_->work(); }
    Bytes chain() const override { return backend_->chain(); }

    // The parts that can fail, before start().
    Result<void> prepare(const security::Signer& signer, const security::Verifier& verifier);

  private:
    // BackendListener
    void certified(bool new_branch) override;
    void decided(BackOff::Fate fate, const PeerId& leader) override;
    void state_is(std::shared_ptr<const state::Snapshot> state) override;
    void applied(const events::StepMade& made) override;
    void state_replaced() override;
    void download_progress(double progress) override { publisher_.set_download_progress(progress); }
    void step_wanted() override;
    void kept_out(std::string why) override;
    // events::Teller
    void tell(events::Any what, PeerId peer, std::string text) override;

    // Nothing that this peer would compute has a part in the average.
    bool rests() const { return back_off_.is_on() || backend_->holds_back(); }
    bool trains() const { return options_.role == membership::Role::trainer; }
    Task<Result<void>> meet_somebody(TimePoint deadline);
    Task<Result<void>> start_as_newcomer();
    Task<Result<void>> join_those_met(TimePoint deadline);
    Task<Result<void>> start_again();
    Task<Result<bool>> find_living_run(TimePoint deadline);
    bool sees_living_run() const;
    Task<void> meet_bootstrap();
    Task<void> leave_as_helper(Duration patience);
    bool is_waited_for() const;
    Task<void> watch_progress();
    membership::Membership::Callbacks membership_callbacks();
    void make_admission(const security::Signer& signer, const security::Verifier& verifier);
    admission::AdmissionService::Callbacks admission_callbacks(const security::Signer& signer,
                                                               const security::Verifier& verifier);
    void on_status(const membership::Status& before, const membership::Status& now);
    bool is_needed() const;
    void end_back_off();
    void tell_of_back_off();
    void check_stop_conditions();
    void obey_orders();
    void refresh_progress();
    bool batch_is_full() const;  // any thread
    void set_phase(membership::Phase phase);

    // steps.cpp
    bool trainer_is_current() const;
    StepOutcome outcome(StepKind kind);
    StepKind how_it_ended() const;
    void begin_computing(bool keep_ahead = false);
    Task<bool> back_off_until_due(bool has_samples);
    bool is_still_to_be_averaged(const allreduce::RoundInput& input) const;
    Task<bool> wait_to_hand_in_last();
    Task<void> wait_for_state();
    StepOutcome too_late(Contribution contribution);
    void forget_refused();
    void tell_of_forgotten();
    void tell_of_left_out();
    template <typename Begin>
    void introduce(Begin& begin) const;
    void drop(std::uint64_t samples, std::string_view why);

    // Where the trainer is.
    struct ComputesAt {
        consensus::Instance step;
        bool is_in_step = false;         // it has handed in
        bool state_is_replaced = false;  // since the last step
    };

    runtime::Node node_;
    p2p::Host& host_;
    Options options_;
    events::EventSink* events_;

    membership::BatchProgress progress_;
    Contributions contributions_;
    membership::SampleClaims claims_;
    replica::StepReport report_;
    membership::StatusPublisher publisher_;
    events::EventRate event_rate_;
    events::PeerNames names_;
    BackOff back_off_;
    NotFiniteTally not_finite_;
    replica::NewestState state_;
    struct Access {
        std::shared_ptr<membership::Authorizer> authorizer{};
        std::unique_ptr<admission::AdmissionService>
            admission{};                                      // null: the run lets in otherwise
        std::unique_ptr<admission::RevocationJudge> judge{};  // null with it
        TimePoint key_told_again{};  // that this peer's key is used twice: not before
    } access_;
    std::unique_ptr<membership::Membership> membership_;
    std::unique_ptr<AveragingBackend> backend_;
    std::unique_ptr<membership::AttachmentServer> attachment_server_;

    std::atomic<bool> step_due_{false};
    std::atomic<bool> trainer_runs_{false};
    // How it came to an end for this peer.
    struct Ending {
        std::atomic<bool> over{false};
        std::string kept_out;  // by an order, in words; empty: no
        bool tasks_stopped = false;
    } ending_;
    struct Leaving {
        std::atomic<bool> begun{false};
        TimePoint deadline = TimePoint::never();
    } leaving_;
    ComputesAt computes_at_;
    Accounts accounts_;
    runtime::Event changed_;
    runtime::Scope scope_;
};

}  // namespace dedloc::collab
