// The engine behind collaboration.h: glue between membership, rounds, the chain follower and the
// trainer. One file for its life (collaboration.cpp), one for the trainer's side (steps.cpp), one
// for what is believed of others' samples (claims.cpp).
//
// Thread: the network thread; what a trainer's thread touches is atomic or behind state_mutex_.

#pragma once
#include <array>
#include <atomic>
#include <functional>
#include <mutex>

#include "dedloc/averaging/aggregator.h"
#include "dedloc/averaging/coordinator.h"
#include "dedloc/collab/carry.h"
#include "dedloc/collab/certificate_log.h"
#include "dedloc/collab/chain_follower.h"
#include "dedloc/collab/collaboration.h"
#include "dedloc/collab/membership.h"
#include "dedloc/collab/rest.h"

namespace dedloc::collab {

class CollaborationImpl final : public Collaboration,
                                private averaging::Roster,
                                private averaging::RoundListener {
  public:
    CollaborationImpl(runtime::Node node,
                      p2p::Host& host,
                      const security::Signer& signer,
                      const security::Verifier& verifier,
                      Options options,
                      EventSink* events);
    ~CollaborationImpl() override;

    Task<Result<void>> start() override;
    Task<void> leave(Duration patience) override;
    Task<void> stop() override;
    std::shared_ptr<const state::Snapshot> state() const override;
    void report(std::uint64_t samples, double loss_sum, double seconds) override;
    void report_not_finite(std::uint64_t samples) override { samples_not_finite_ += samples; }
    void trainer_runs(bool runs) override { trainer_runs_ = runs; }
    void compute_ahead() override;
    bool may_compute() const override { return !resting_; }
    bool may_compute_ahead() const override;
    void forget_ahead(std::uint64_t samples) override;
    bool step_due() const override;
    Task<Result<StepOutcome>> step(Contribution contribution) override;
    bool stopped() const override;
    void report_evaluation(std::uint64_t step, const Evaluation& evaluation) override;
    Status status() const override;
    std::vector<Status> peers() const override;
    Digest branch() const override;
    std::string join_string() const override;
    Accounts accounts() const override;
    void set_caps(double upload_max, double download_max) override;
    averaging::AggregatorWork assistance() const override;
    Bytes chain() const override;

    Result<void> prepare();  // the parts that can fail, before start()

  private:
    // averaging::Roster
    std::vector<PeerId> expected(const consensus::Base& base) const override;
    std::vector<PeerId> live_trainers() const override;
    std::vector<PeerId> newcomers() const override;
    std::size_t voters_heard_of(const consensus::Base& base) const override;
    bool chain_goes_on(const consensus::Base& base) const override;
    bool loads_state() const override { return follower_ && follower_->loads_state(); }
    std::size_t voters_of_our_branch(const consensus::Base& base) const override;
    bool allowed(const PeerId& peer) const override;
    double micro_batch_s() const override;
    double upload_bytes_per_s(const PeerId& peer) const override;
    Ok check_samples(const PeerId& peer, const consensus::MemberInput& input) const override;
    // averaging::RoundListener
    void round_wanted() override;
    void behind(const PeerId& peer) override;
    void voting_for(const consensus::Decision& decision) override;
    void note(const averaging::RoundNote& note) override;

    bool stands_on(const Status& status, const consensus::Base& base) const;
    bool arrives_at(const KnownPeer& peer, const consensus::Base& base) const;
    Task<Result<void>> start_as_host();
    Task<Result<void>> start_as_newcomer();
    Task<void> meet_bootstrap();
    void start_aggregator();
    void on_decision_assisted(const consensus::Decision& decision);
    void follow_if_ahead(const Status& status);
    Task<void> watch_progress();
    consensus::Voter as_voter() const;
    void part_from_lost_state();
    void begin_anew();
    Membership::Callbacks membership_callbacks();
    ChainFollower::Callbacks follower_callbacks();
    void on_status(const Status& before, const Status& now);
    void on_decision(const consensus::Decision& decision, const Bytes& certificate);
    double line() const;
    bool is_needed() const;
    void end_rest();
    Rest::Fate fate_of(const consensus::Plan& plan,
                       const consensus::Decision& decision,
                       std::optional<std::size_t> mine) const;
    void tell_rest(Rest::Fate fate, const PeerId& leader);
    void on_applied(const consensus::Decision& decision,
                    const consensus::Plan& plan,
                    const optim::StepReport& optimizer);
    void note_times(const consensus::Decision& commit);
    std::optional<events::StepMade::Times> times_of(const consensus::Decision& commit,
                                                    TimePoint applied) const;
    void take_state(std::shared_ptr<const state::Snapshot> state);
    void check_stop_conditions();
    void refresh_progress();
    double samples_everywhere() const;  // any thread
    bool batch_is_full() const;         // any thread
    bool add_to_sums(std::uint64_t samples, double loss_sum);
    void set_phase(Phase phase);
    void emit(events::Any what, PeerId peer, std::string text);

    // claims.cpp
    std::optional<TimePoint> computed_since(bool carried) const;
    double computed_most(const KnownPeer& peer, bool carried) const;
    bool told_of_all_it_hands_in(const Status& status) const;

    // steps.cpp
    bool trainer_is_current() const;
    StepOutcome outcome(StepKind kind);
    StepKind how_it_ended() const;
    void begin_computing(bool keep_ahead = false);
    bool has_open_state() const;
    Task<bool> rest_until_due(bool has_samples);
    // Live voters of `base` with their memory of votes, we among them, that `counts`.
    std::size_t count_voters(const consensus::Base& base,
                             const std::function<bool(const Status&)>& counts) const;
    bool is_still_to_be_averaged(const allreduce::RoundInput& input) const;
    Task<bool> wait_to_hand_in_last();
    Task<void> wait_for_state();
    void tell_of_not_finite();
    void forget_refused();
    void tell_of_forgotten();
    void drop(std::uint64_t samples, std::string_view why);

    runtime::Node node_;
    p2p::Host& host_;
    const security::Signer& signer_;
    const security::Verifier& verifier_;
    Options options_;
    EventSink* events_;
    Digest run_hash_;

    consensus::Ledger ledger_;
    allreduce::PartStore parts_;
    state::SnapshotStore store_;
    Carry carry_;
    CertificateLog certificate_log_;
    std::unique_ptr<Membership> membership_;
    std::unique_ptr<averaging::Coordinator> engine_;
    std::unique_ptr<ChainFollower> follower_;
    std::unique_ptr<averaging::Aggregator> aggregator_;  // instead of engine and follower
    std::unique_ptr<state::StateServer> state_server_;
    std::unique_ptr<AttachmentServer> attachment_server_;
    runtime::Event changed_;
    runtime::Scope scope_;

    // The trainer's side
    mutable std::mutex state_mutex_;
    std::shared_ptr<const state::Snapshot> state_;
    std::atomic<std::uint64_t> samples_{0};  // computed towards the open step
    std::atomic<double> loss_sum_{0};
    // Estimate of the others, refreshed by the network thread: samples at a time, and their rate.
    std::atomic<double> others_samples_{0};
    std::atomic<double> others_per_s_{0};
    std::atomic<double> others_in_micro_batches_{0};  // samples in one of each that computes
    std::atomic<std::int64_t> others_at_ns_{0};
    std::atomic<double> others_speed_{0};  // whatever they do at the moment
    // Computed for the step after the open one, while that is being made.
    enum class Ahead { no, yes, lost };  // lost: until the trainer has forgotten it too
    std::mutex ahead_mutex_;             // who moves them and who adds to them must not meet
    std::atomic<Ahead> ahead_{Ahead::no};
    std::atomic<std::uint64_t> samples_ahead_{0};
    double loss_ahead_ = 0;
    std::atomic<std::uint64_t> forgotten_{0};  // by the trainer, not dropped yet
    std::atomic<double> samples_per_s_{0};
    std::atomic<double> micro_batch_s_{0};
    std::atomic<std::uint64_t> samples_not_finite_{0};
    std::uint64_t not_finite_told_ = 0;
    TimePoint not_finite_told_at_;
    std::atomic<bool> step_due_{false};
    std::atomic<bool> trainer_runs_{false};
    std::atomic<bool> resting_{false};
    std::atomic<bool> over_{false};
    std::atomic<bool> leaving_{false};
    Rest rest_;
    double line_at_rest_ = 0;         // bytes per second, as the rest began
    consensus::Instance trainer_at_;  // the step the trainer computes for
    std::optional<consensus::MemberInput> handed_in_;
    TimePoint handed_in_at_;
    // When we handed in what we have in the newest commits, newest first; nothing: they have
    // nothing of ours. Nobody can have computed at a commit's state before that, however late we
    // heard of it.
    std::array<std::optional<TimePoint>, 3> in_commit_since_;
    double handed_in_loss_ = 0;
    // The newest commit with fresh samples of ours in it, and their loss.
    std::optional<consensus::Instance> contributed_to_;
    double contributed_loss_ = 0;
    bool in_step_ = false;
    bool replaced_ = false;  // the state was replaced since the last step
    TimePoint leave_deadline_ = TimePoint::never();
    TimePoint decided_at_;    // the newest certificate came
    TimePoint step_started_;  // the state that it begins at was there
    // Of the newest commit whose plan has come to us.
    struct RoundTimes {
        consensus::Instance step;
        std::optional<TimePoint> handed_in;  // fresh samples; nothing: none were computed
        TimePoint planned;
        TimePoint decided;
    };
    std::optional<RoundTimes> round_times_;

    Phase phase_ = Phase::starting;
    double download_progress_ = 0;
    mutable std::uint64_t status_sequence_;
    Digest state_hash_;
    std::uint64_t committed_samples_ = 0;
    Evaluation evaluation_;
    std::uint64_t evaluation_step_ = 0;
    Accounts accounts_;
    bool stopped_tasks_ = false;
};

}  // namespace dedloc::collab
