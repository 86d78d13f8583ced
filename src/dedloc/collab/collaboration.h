// Collaboration: one peer's part in a run. It keeps the membership, decides when a global step is
// due, runs the round, applies what was committed, catches up when it slept, and serves its state.
//
// The caller computes gradients (train::Trainer does it with a Model; train::LoopSession with the
// user's own loop; the simulator in virtual time):
//
//   while (!collaboration.stopped()) {
//       if (collaboration.is_to_compute()) {
//           compute a micro-batch at collaboration.state()
//           collaboration.report(samples, loss_sum);
//       } else outcome = co_await collaboration.step(contribution);
//   }
//
// With the run file's averaging.delayed the caller need not wait: after compute_ahead() it computes
// on at the old state while step() runs beside it, and takes the new state when that is done. The
// only voter of a run need not wait for its disk either (Contribution::on_expected).
//
// Thread: the network thread, except where a method says "any thread".

#pragma once
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dedloc/admission/admission_message.h"
#include "dedloc/admission/issuer.h"
#include "dedloc/averaging/aggregator_work.h"
#include "dedloc/base/result.h"
#include "dedloc/collab/samples.h"
#include "dedloc/collab/stranger_protocols.h"
#include "dedloc/consensus/messages.h"
#include "dedloc/events/events.h"
#include "dedloc/membership/attachments.h"
#include "dedloc/membership/status.h"
#include "dedloc/p2p/host.h"
#include "dedloc/replica/kept_averages.h"
#include "dedloc/run/layout.h"
#include "dedloc/run/run_file.h"
#include "dedloc/runtime/node.h"
#include "dedloc/security/identity.h"
#include "dedloc/state/snapshot.h"
#include "dedloc/validation/check_job.h"

namespace dedloc::collab {

// A trainer hands this in for one global step: sums over the samples `samples` of its own sequence.
struct Contribution {
    CounterRange samples;
    std::vector<float>
        sum;  // vector_count() elements: gradient sums, then samples × buffers' change
    // In a run with fragments the sum is of one, and `samples` are those since it was handed in
    // last. Empty: the whole vector.
    consensus::ElementRange moved{};
    // Likewise: what waits beside it.
    WaitingSamples waiting{};
    double loss_sum = 0;
    double correct_sum = 0;
    // Network thread, at most once, before step() ends: the state that the step leads to is known,
    // and nobody but this peer has to decide it, whose vote is still being written. What is
    // reported from now on counts as computed ahead, at this state; the outcome is `stepped` only
    // if that is its state. Empty: the trainer waits for the outcome.
    std::function<void(std::shared_ptr<const state::Snapshot>)> on_expected{};
};

enum class StepKind {
    stepped,   // a certificate was applied; the contribution is in it, or carried, or reported
    resynced,  // the peer was behind or on a losing branch: it has a newer state now; what it
               // handed in was computed too long ago and is dropped (and counted); so is what it
               // computed ahead
    stopped,   // the run's stop condition is met, or the collaboration is leaving
};

struct StepOutcome {
    StepKind kind = StepKind::stepped;
    std::shared_ptr<const state::Snapshot> state;  // compute from here
    // Nobody's contribution could be averaged, and we ourselves refused what was handed in: it is
    // not finite, or beyond averaging.norm_max. It is dropped.
    bool refused = false;
};

struct CollaborationOptions {
    run::RunFile run;
    Bytes secret;  // the run secret; empty: an open run
    // In a run that lets in by invitation: what an organiser gave this peer; or, where this peer
    // lets people in itself, their issuer.
    admission::Admitted admitted{};
    std::shared_ptr<admission::Issuer> issuer{};
    run::Layout layout;
    std::string name;  // for people
    // An aggregator needs neither layout nor state: it reduces parts that plans give it.
    membership::Role role = membership::Role::trainer;
    // Multiaddrs with /p2p/; empty: this peer is the host. A host that resumes a run names those
    // that it knew: where the run goes on among them, it comes back as everybody does.
    std::vector<std::string> bootstrap;
    std::shared_ptr<const state::Snapshot> initial;  // host only: the starting (or resumed) state
    // Host only, of a resumed run: chain() of the checkpoint. Its orders stay in force.
    Bytes chain;
    std::vector<membership::Attachment>
        attachments;  // files of the run file, served to those who join
    Duration status_interval = std::chrono::milliseconds(500);
    std::size_t kept_steps = 64;  // certificates, averages kept for those who slept
    std::size_t kept_bytes_max = replica::kept_averages_usual;  // more for large models …
    std::size_t kept_bytes_most =
        replica::kept_averages_large;  // … up to here: kept_averages_most()
    Duration join_timeout = std::chrono::seconds(60);
    // The plan may count on this of the peer's link, bytes per second; 0: what is measured.
    double upload_max = 0;
    double download_max = 0;
    // Aggregator: contributions that wait for slower members' may take so many bytes.
    std::size_t reduce_bytes_max = 256u << 20;
    // Members of a round, and known to a peer: fewer in tests of what is told to those beyond it.
    std::size_t members_max = consensus::members_max;
    std::size_t peers_max = membership::peers_max;
    // Strangers may do that with the node's part of the distributed table, if it has one.
    TableUse table_use = TableUse::none;
    // For experiments: a peer that goes on contributing although it is told that it errs.
    bool stubborn = false;
    // In a robust run, whoever trains here asks take_check(). A peer that offers it and does not is
    // put on probation.
    bool checks_others = true;
};

class Collaboration {
  public:
    // `signer` is the host's own identity. `events` may be null.
    static Result<std::unique_ptr<Collaboration>> make(runtime::Node node,
                                                       p2p::Host& host,
                                                       const security::Signer& signer,
                                                       const security::Verifier& verifier,
                                                       CollaborationOptions options,
                                                       events::EventSink* events);
    virtual ~Collaboration() = default;

    // Joins: hello with the bootstrap peers, state download. Returns when state() is usable.
    virtual Task<Result<void>> start() = 0;
    // Leaves in order: hands in what there is (bounded wait), withdraws the status, ends all tasks.
    virtual Task<void> leave(Duration grace_period) = 0;
    // Network thread: leave(), which is under way, waits for so long from now at most. A later time
    // than the one it has changes nothing.
    virtual void leave_within(Duration grace_period) { (void)grace_period; }
    // Ends all tasks at once, saying nothing.
    virtual Task<void> stop() = 0;

    virtual std::shared_ptr<const state::Snapshot> state() const = 0;  // any thread
    // Any thread: after every micro-batch.
    virtual void report(std::uint64_t samples, double loss_sum, double seconds) = 0;
    // Any thread: a micro-batch whose loss or gradient is not finite was left out.
    virtual void report_not_finite(std::uint64_t samples) = 0;
    // Any thread: a loop in another thread computes (true) or has ended (false). Between the two,
    // leave() waits for its last contribution, also while nothing of it has been reported yet.
    virtual void trainer_runs(bool runs) = 0;
    // Any thread: is there use in computing? Not while rounds do without what this peer brings
    // (back_off.h): it hands in an empty contribution at once, and looks again after that step.
    virtual bool may_compute() const = 0;
    // Any thread: the user wants nothing computed here, or again. A paused trainer stays a member:
    // it keeps up with the run, votes and serves its state, and still computes the checks of a
    // robust run that it has promised.
    virtual void set_paused(bool paused) { (void)paused; }
    virtual bool paused() const { return false; }
    // Trainer's thread, right before step() is begun beside it: what is reported from now on was
    // computed ahead, for the step after. It stays when the outcome is `stepped`.
    virtual void compute_ahead() = 0;
    // Any thread: is there use in computing more while a step is being made? Not once our share of
    // the next batch is there: nothing gets older than one step.
    virtual bool may_compute_ahead() const = 0;
    // Trainer's thread, after another outcome: it has forgotten so many samples that it computed
    // ahead. Until this is said, what is reported counts for nothing.
    virtual void forget_ahead(std::uint64_t samples) = 0;
    // Any thread: true once the trainer should hand in its contribution.
    virtual bool step_due() const = 0;
    // Any thread: what a trainer does next, a micro-batch (true) or step().
    bool is_to_compute() const { return !step_due() && may_compute(); }
    // Completes when the step is decided. Call again with an empty contribution to keep taking part
    // without computing (weight 0): while there is no use in computing it waits for the next step.
    virtual Task<Result<StepOutcome>> step(Contribution contribution) = 0;
    // Any thread: run over, or leaving.
    virtual bool stopped() const = 0;

    // Any thread: another peer's contribution is to be computed again, for the run's checks. A loop
    // looks when it has nothing accumulated: before it computes, and before it hands in nothing.
    virtual bool check_waits() const { return false; }
    // Trainer's thread's turn: none: there is none any more.
    virtual Task<Result<std::optional<validation::CheckJob>>> take_check();
    virtual Task<Result<void>> checked(validation::CheckResult result);

    virtual void report_evaluation(std::uint64_t step, const Evaluation& evaluation) = 0;
    // The judge of who may take part, which hears of revocations. Null: other backends have none.
    virtual std::shared_ptr<membership::Authorizer> authorizer() const { return nullptr; }
    virtual membership::Status status() const = 0;  // ours
    virtual std::vector<membership::Status> peers()
        const = 0;  // ours and all live others, by PeerId
    virtual Digest branch() const = 0;
    virtual std::string join_string() const = 0;  // current addresses, run hash, secret, anchor
    // This peer's own accounts as the chain of certificates tells them, for people and checkers.
    struct Accounts {
        std::uint64_t certificates = 0;     // accepted since start
        std::uint64_t branches = 0;         // changes of branch
        double samples_expired = 0;         // handed in, two steps late or of unknown fate: dropped
        std::uint64_t samples_dropped = 0;  // computed and never handed in (left, resynced)
        std::uint64_t samples_not_finite = 0;  // left out: their loss or gradient is not finite
    };
    virtual Accounts accounts() const = 0;
    // Plans may count on this from now on, as CollaborationOptions::upload_max and download_max.
    virtual void set_caps(double upload_max, double download_max) = 0;
    // An aggregator's work; other backends have none.
    virtual averaging::AggregatorWork assistance() const { return {}; }
    // Everything a checkpoint needs besides the snapshot: run file text and certificate chain tail.
    virtual Bytes chain() const = 0;
};

}  // namespace dedloc::collab
