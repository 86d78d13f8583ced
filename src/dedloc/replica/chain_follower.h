// ChainFollower: keeps this peer's state where its ledger is. It applies every commit (fetch what
// is missing, decode, optimizer, hash), replays what was slept through, loads a state from
// providers when replay is not possible, and changes to a better branch when it meets one.
//
// Order: certificates reach the ledger in order; each becomes an entry of the queue; one task works
// the queue off, so that states follow each other as the chain does.
//
// Invariant: the ledger's base state is set only to the hash of the state that lies in the store.
// Thread: the network thread; heavy work on workers.

#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <set>

#include "dedloc/allreduce/fetch.h"
#include "dedloc/averaging/coordinator.h"
#include "dedloc/consensus/catch_up.h"
#include "dedloc/consensus/sync_candidates.h"
#include "dedloc/events/events.h"
#include "dedloc/membership/membership.h"
#include "dedloc/replica/deferred_gradients.h"
#include "dedloc/replica/join_attempt.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/replica/state_need.h"
#include "dedloc/replica/step_computer.h"
#include "dedloc/state/store.h"
#include "dedloc/state/transfer.h"

namespace dedloc::replica {

// A trainer that knows certificates of our branch that we lack. Its step is that of the state it
// has; who could not apply the newest commit counts samples that it has none of.
bool is_ahead(const membership::Status& status, const consensus::Base& base);

// Trainers that may give a state, the fastest uplinks first, as slow ones set the time of rounds
// that go on meanwhile. `first`, who told of the state, is among them; it goes before those of
// whose uplink no more is known.
std::vector<PeerId> fastest_providers(const std::vector<const membership::KnownPeer*>& live,
                                      const PeerId& first);

class ChainFollower {
  public:
    struct Callbacks {
        // A step was applied: the state stands on `decision`.
        std::function<void(
            const consensus::Decision&, const consensus::RoundPlan&, const optim::UpdateReport&)>
            on_applied;
        // The only voter's step leads here, once its vote is on disk. Nobody else has heard of it.
        std::function<void(std::shared_ptr<const state::Snapshot>)> on_expected;
        // The state was replaced by a downloaded one.
        std::function<void(std::string why)> on_replaced;
        std::function<void(double)> on_progress;  // of a download
    };

    ChainFollower(averaging::Coordinator& engine,
                  state::SnapshotStore& store,
                  membership::Membership& membership,
                  run::RunFile run,
                  run::Layout layout,
                  Callbacks callbacks);
    ~ChainFollower();

    void start();
    Task<void> stop();

    // Host: begins from a state that lies in the store and its first certificate.
    Ok begin(ByteView certificate, const Digest& root);
    // Newcomer: asks members for the newest certificate, downloads, replays. Tries until it works
    // or no member has answered by `deadline`, or one has and nothing came of it for ten minutes: a
    // state may be large, lines slow, and others be served first. peer_gone, timeout: nobody gave
    // it; bad_input: what all members have is no state of this model.
    Task<Result<void>> join(TimePoint deadline);

    // No join comes of it any more, for this reason.
    void give_up_joining(Error why);

    // This peer votes for `decision` and holds its averages: the state after it is computed while
    // the others vote.
    void expect(const consensus::Decision& decision);
    // The ledger has accepted this decision: it is applied as soon as those before it are.
    void decided(const consensus::Link& link);
    // `peer` knows more than we do, or stands on another branch: look and follow the better one.
    void inspect(const PeerId& peer);
    // To be asked now and then. If a certified step can be applied by nobody who lives, as all who
    // had its average are gone, and that for the quorum timeout, a branch of `self` alone begins
    // at the state that is here; the others load it. Returns its certificate, once.
    std::optional<Bytes> part_from_lost(const consensus::Voter& self);
    // True when every certificate in the ledger has been applied.
    bool up_to_date() const { return queue_.empty() && !busy_; }
    // A state is being downloaded.
    bool loads_state() const { return adopting_; }
    runtime::Event& changed() { return changed_; }

  private:
    struct Entry {
        consensus::Decision decision;
        std::shared_ptr<const consensus::RoundPlan> plan;  // of a commit
        Bytes certificate;
    };
    Task<void> work();
    Task<void> apply_next();
    Task<Result<optim::UpdateReport>> apply_commit(
        consensus::Decision decision, std::shared_ptr<const consensus::RoundPlan> plan);
    Task<Result<void>> fetch_average(const consensus::Decision& decision,
                                     allreduce::PartSources sources,
                                     Duration timeout);
    Task<void> fetch_average_into(std::shared_ptr<Result<void>> fetched,
                                  consensus::Decision decision,
                                  allreduce::PartSources sources,
                                  Duration timeout);
    Task<void> until_replaced(std::shared_ptr<const state::PublishedState> stood_on);
    void check_all();
    void brings_nothing(const PeerId& peer);
    bool others_may_know_what_follows(const consensus::Decision& theirs);
    Task<void> find_state();
    Task<void> catch_up_with(PeerId peer);
    bool is_contradicted_by(const consensus::Decision& theirs) const;
    bool brings_us_further(const consensus::Decision& theirs) const;
    Task<Result<bool>> adopt(PeerId peer, Bytes certificate);
    Task<Result<bool>> adopt_alone(PeerId peer, Bytes certificate);
    bool better(const consensus::Decision& theirs) const;
    std::vector<PeerId> join_candidates() const;
    Task<Result<void>> join_through(PeerId peer);
    void settle();
    bool leads_nowhere(const consensus::Decision& theirs) const;
    bool could_help(const membership::Status& status) const;
    bool is_lost() const;
    void wait_for_help();

    const averaging::RoundEnvironment& context_;
    const links::Timeouts& timeouts_;
    allreduce::PartFetcher& fetcher_;
    state::SnapshotStore& store_;
    membership::Membership& membership_;
    run::RunFile run_;
    run::Layout layout_;
    StepComputer computer_;
    Callbacks callbacks_;
    std::deque<Entry> queue_;
    consensus::SyncCandidates sync_candidates_;
    Digest nothing_after_;            // our newest certificate, after which …
    std::set<PeerId> bring_nothing_;  // … these knew none when they were asked
    std::shared_ptr<state::PartialState> partial_;
    Duration state_took_{0};  // to load, the newest time
    JoinAttempt joining_;
    StateNeed need_;
    bool busy_ = false;              // applying
    bool adopting_ = false;          // a state is being loaded
    std::set<Digest> opened_alone_;  // branches of this peer alone
    consensus::CatchUp catch_up_;
    runtime::Event wake_;
    runtime::Event changed_;
    runtime::Scope scope_;
};

}  // namespace dedloc::replica
