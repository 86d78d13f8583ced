// AveragingBackend: how the contributions of many peers become one step. A collaboration has one:
//
//   NativeBackend       certified rounds, branches, identical states (docs/spec/round.md)
//   AggregatorBackend   reduces parts of native rounds, and holds no state
//   ObserverBackend     takes no part
//
// A backend has its BackendListener act on what has happened, and tells people of it through
// events::Teller.
//
// Thread: the network thread.

#pragma once
#include <memory>
#include <optional>
#include <string>

#include "dedloc/averaging/aggregator_work.h"
#include "dedloc/base/result.h"
#include "dedloc/collab/back_off.h"
#include "dedloc/collab/collaboration.h"
#include "dedloc/collab/contributions.h"
#include "dedloc/collab/lab.h"
#include "dedloc/consensus/ledger.h"
#include "dedloc/consensus/order_judge.h"
#include "dedloc/events/teller.h"
#include "dedloc/membership/batch_progress.h"
#include "dedloc/membership/membership.h"
#include "dedloc/membership/sample_claims.h"
#include "dedloc/replica/step_report.h"
#include "dedloc/run/join_string.h"
#include "dedloc/state/snapshot.h"
#include "dedloc/validation/validators.h"

namespace dedloc::collab {

class BackendListener {
  public:
    virtual ~BackendListener() = default;
    // A decision of the group was accepted; on a new branch, perhaps.
    virtual void certified(bool new_branch) = 0;
    // The open step is decided: what became of our contribution, by a plan of `leader`.
    virtual void decided(BackOff::Fate fate, const PeerId& leader) = 0;
    // The trainer may compute from this state already: the open step leads to it, unless this
    // peer's own vote cannot be written. Nobody else may hear of it.
    virtual void state_expected(std::shared_ptr<const state::Snapshot> state) = 0;
    // The trainer computes from this state now.
    virtual void state_is(std::shared_ptr<const state::Snapshot> state) = 0;
    // A step was applied; its state has been told.
    virtual void applied(const events::StepMade& made) = 0;
    // Another state takes the place of ours, which is told next: what was computed belongs nowhere.
    virtual void state_replaced() = 0;
    virtual void download_progress(double progress) = 0;
    // Others average already: hand in soon.
    virtual void step_wanted() = 0;
    // This peer is out of the run by an order, which the sentence explains.
    virtual void kept_out(std::string why) = 0;
};

// How far the group is, as a backend without a state knows it.
struct Reached {
    std::uint64_t step = 0;
    double samples = 0;
};

// A backend works with this; it outlives the backend.
struct BackendContext {
    runtime::Node node;
    p2p::Host& host;
    const security::Signer& signer;
    const security::Verifier& verifier;
    const CollaborationOptions& options;
    const Planted& planted;
    membership::Membership& membership;
    Contributions& contributions;
    membership::SampleClaims& claims;
    const membership::BatchProgress& progress;
    replica::StepReport& report;
    BackendListener& listener;
    events::Teller& teller;
    // Judges orders in decisions; it outlives the backend as well.
    consensus::OrderJudge& judge;
};

class AveragingBackend {
  public:
    virtual ~AveragingBackend() = default;

    // Begins to answer others; before host() or join().
    virtual void start() {}
    // Begins a run with this state.
    virtual Task<Result<void>> host(std::shared_ptr<const state::Snapshot> initial);
    // Members are known by now: gets the state, or whatever else is needed to take part.
    virtual Task<Result<void>> join(TimePoint deadline);
    // Takes no part in what is decided after the open step.
    virtual void set_leaving() {}
    // Returns when nobody needs us any more, or at the deadline.
    virtual Task<void> part(TimePoint deadline);
    virtual Task<void> stop();

    // Where the group's certificates are; null: this peer follows none.
    virtual const consensus::Ledger* ledger() const { return nullptr; }
    // Nothing that was decided is still to be applied: the newest state is the open step's.
    virtual bool has_open_state() const { return false; }
    // Nothing: unknown, or the state tells.
    virtual std::optional<Reached> reached() const { return std::nullopt; }

    // A round is wanted although this peer has nothing to hand in yet.
    virtual void want_round() {}
    // Hands in a frozen contribution, and waits until the open step is left. One at a time.
    virtual Task<void> average(std::shared_ptr<const allreduce::RoundInput> input);
    // We have refused some of what we handed in last.
    virtual bool own_refused() const { return false; }
    // As an owner this peer brought all that it had of these ranges to sums of the open step
    // (sparse_sums.h).
    virtual std::vector<consensus::ElementRange> brought_to_own_sums() const { return {}; }
    // Rounds do without us for a while.
    virtual void set_left_out(bool) {}

    // This peer's checks of others, for as long as the backend lives; null: it makes none. Any
    // thread.
    virtual validation::GradientValidators* checks() const { return nullptr; }
    // Why an order keeps a peer out; empty: none does.
    virtual std::string why_kept_out(const PeerId&) const { return {}; }

    // Our link as measured, at most what the user grants; bytes per second, 0: not known.
    virtual double upload_bytes_per_s() const { return 0; }
    virtual double download_bytes_per_s() const { return 0; }
    virtual void set_caps(double upload_max, double download_max);

    // A member says how it is doing.
    virtual void on_status(const membership::Status& before, const membership::Status& now);
    // To be called a few times a second.
    virtual void poll() {}
    // Fills in where we stand.
    virtual void describe(membership::Status&) const {}
    virtual averaging::AggregatorWork work() const { return {}; }

    // The newest decision; null: none is known.
    const consensus::Base* base() const;
    // There is an open step.
    bool started() const { return base() != nullptr; }
    std::uint64_t open_step() const { return started() ? base()->instance.step : 0; }
    Digest branch() const { return started() ? base()->instance.branch : Digest{}; }
    std::optional<run::Anchor> anchor() const;
    // The newest certificates, which a checkpoint needs beside the snapshot.
    Bytes chain() const;
};

class ObserverBackend final : public AveragingBackend {};

// By the role in context.options. Errors: local_fault (votes of an earlier run cannot be read).
Result<std::unique_ptr<AveragingBackend>> make_backend(BackendContext context);

}  // namespace dedloc::collab
