// TrainerSteps: the trainer's side of a collaboration: what it has computed, when a step is due,
// what is handed in, what comes back.
//
// Thread: the network thread, except where a method says "any thread".

#pragma once
#include <atomic>
#include <functional>
#include <memory>
#include <string_view>

#include "dedloc/collab/averaging_backend.h"
#include "dedloc/collab/collaboration.h"
#include "dedloc/collab/ending.h"
#include "dedloc/collab/not_finite_tally.h"
#include "dedloc/collab/slow_link.h"
#include "dedloc/membership/status_publisher.h"
#include "dedloc/replica/newest_state.h"

namespace dedloc::collab {

// Parts of a collaboration share this.
struct Shared {
    runtime::Node node;
    const CollaborationOptions& options;
    membership::Membership& membership;
    AveragingBackend& backend;
    membership::StatusPublisher& publisher;
    events::Teller& teller;
    Ending& ending;
    runtime::Event& changed;

    void set_phase(membership::Phase phase) const {
        if (publisher.set_phase(phase)) membership.push_now();
    }
    bool trains() const { return options.role == membership::Role::trainer; }
};

// The trainer's samples and what others say of theirs. The backend keeps its books here too.
struct Computed {
    Computed(const CollaborationOptions& options, const Planted& planted);

    membership::BatchProgress progress;
    Contributions contributions;
    membership::SampleClaims claims;
    replica::StepReport report;
    bool keeps_stale = false;  // a planted bug: what was computed ahead, whatever has come of it
};

class TrainerSteps {
  public:
    TrainerSteps(const Shared& shared, Computed& computed);

    // Any thread: what a trainer tells and asks (collaboration.h).
    void report(std::uint64_t samples, double loss_sum, double seconds);
    void report_not_finite(std::uint64_t samples) { not_finite_.add(samples); }
    void trainer_runs(bool runs) { trainer_runs_ = runs; }
    bool may_compute() const { return !rests(); }
    bool may_compute_ahead() const;
    void set_paused(bool paused) { paused_ = paused; }
    bool paused() const { return paused_; }
    bool is_due() const { return due_ || ending_.stopped(); }
    std::shared_ptr<const state::Snapshot> state() const { return state_.get(); }
    bool check_waits() const;

    Task<Result<StepOutcome>> step(Contribution contribution);

    // The trainer goes on from the state it is given now, with or without what it computed ahead.
    void begin_computing(bool keep_ahead = false);
    void state_is(std::shared_ptr<const state::Snapshot> state);
    // The step that the trainer has handed in for leads there, unless our vote cannot be written.
    void state_expected(std::shared_ptr<const state::Snapshot> state);
    void state_is_replaced() { computes_at_.state_is_replaced = true; }
    // A step is due for a reason that lies outside: others average already, or this peer is out.
    void make_due();
    void refresh_progress();
    // To be called a few times a second.
    void poll();
    // Something of this trainer's may still be averaged.
    bool has_something_to_bring() const;
    // The collaboration is left: what was not handed in is dropped, and told.
    void drop_rest();
    // Likewise local steps of fragments whose turn had not come.
    void drop_waiting(std::uint64_t samples);

    SlowLink& slow_link() { return slow_link_; }
    void end_back_off();
    void describe(membership::Status& status) const;
    std::uint64_t samples_dropped() const { return samples_dropped_; }
    std::uint64_t samples_not_finite() const { return not_finite_.all(); }

  private:
    // The trainer computes here.
    struct ComputesAt {
        consensus::Instance step;
        bool is_in_step = false;         // it has handed in
        bool state_is_replaced = false;  // since the last step
    };

    // Nothing that this peer would compute has a part in the average.
    bool rests() const;
    bool batch_is_full() const;  // any thread
    void check_pause();
    bool trainer_is_current() const;
    StepOutcome outcome(StepKind kind);
    StepKind how_it_ended() const;
    StepOutcome too_late(Contribution contribution);
    consensus::ElementRange open_range() const;
    std::uint64_t samples_of(const Contribution& contribution) const;
    void forget_refused();
    Task<bool> back_off_until_due(bool has_samples);
    Task<bool> wait_to_hand_in_last();
    Task<void> wait_for_state();
    bool is_any_other(const std::function<bool(const membership::Status&)>& is) const;
    bool another_hands_in() const;
    bool is_still_to_be_averaged(const allreduce::RoundInput& input) const;
    void tell_of_forgotten();
    void tell_of_not_finite();
    void drop(std::uint64_t samples, std::string_view why);

    const Shared& shared_;
    const Ending& ending_;
    runtime::Clock& clock_;
    Contributions& contributions_;
    membership::BatchProgress& progress_;
    membership::SampleClaims& claims_;
    SlowLink slow_link_;
    const bool keeps_stale_;
    NotFiniteTally not_finite_;
    replica::NewestState state_;
    std::atomic<bool> due_{false};
    std::atomic<bool> trainer_runs_{false};
    std::atomic<bool> paused_{false};
    bool was_paused_ = false;  // at the last look
    ComputesAt computes_at_;
    // The contribution that is handed in brought it; it is asked once.
    std::function<void(std::shared_ptr<const state::Snapshot>)> on_expected_;
    std::shared_ptr<const state::Snapshot> expected_;  // the trainer computes from it already
    std::uint64_t samples_dropped_ = 0;
};

}  // namespace dedloc::collab
