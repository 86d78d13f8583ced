// Coordinator: makes the ledger advance. It follows the leader, or leads when it is this peer's
// turn by running its phases (phase.h): gather, plan, reduce, decide. docs/spec/round.md in
// coroutines.
//
// The parts, each with a state of its own:
//   OpenRound         what this peer wants of the open step, and how time goes by in it
//   Announcements     who has announced itself
//   LeaderElection    who leads, and when a quorum is lost
//   Following         a member's talk with the leader
//   RoundService      answers announce, plan, probe; PartsService: parts, repair, fetch
//   consensus         acceptor, proposer and their service
//   Exchanges         the data of plans, kept until two steps later, so that others can finish
//
// Round trips from the last announcement to the certificate: plan ½, parts and averages 1,
// proposal and votes 1, certificate ½.
//
// Thread: the network thread. Lifetime: stop() before destruction.

#pragma once
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "dedloc/allreduce/exchanges.h"
#include "dedloc/allreduce/fetch.h"
#include "dedloc/allreduce/sparse_sums.h"
#include "dedloc/averaging/commit_averages.h"
#include "dedloc/averaging/following.h"
#include "dedloc/averaging/gather_phase.h"
#include "dedloc/averaging/parts_service.h"
#include "dedloc/averaging/phase.h"
#include "dedloc/averaging/round_parts.h"
#include "dedloc/averaging/round_proofs.h"
#include "dedloc/averaging/round_service.h"
#include "dedloc/consensus/proposer.h"
#include "dedloc/consensus/service.h"

namespace dedloc::averaging {

class Coordinator {
  public:
    static Result<std::unique_ptr<Coordinator>> make(RoundEnvironment environment);
    ~Coordinator();

    void start();
    Task<void> stop();

    const RoundEnvironment& environment() const { return environment_; }
    const links::Timeouts& timeouts() const { return timeouts_; }
    // Orders that are to come into decisions, with their evidence.
    PendingOrders& pending_orders() { return pending_orders_; }
    // Evidence, and proofs of rounds.
    EvidenceStore& evidence() { return evidence_; }
    // Fetches parts of commits.
    allreduce::PartFetcher& fetcher() { return fetcher_; }
    std::uint64_t incarnation() const { return acceptor_->incarnation(); }
    // Have we, as an owner, refused some of what we brought last?
    bool own_refused() const { return exchanges_.state().own_refused; }
    // As an owner this peer brought all that it had of these ranges to sums of the open step.
    std::vector<consensus::ElementRange> brought_to_own_sums() const {
        return exchanges_.state().rests.ranges();
    }

    // A round is wanted (or no more) although this peer has nothing to hand in yet.
    void set_wanted(bool wanted) { open_.set_wanted(wanted); }
    // Hands in a frozen contribution and waits until the ledger has left the open step (or branch).
    // The caller then looks at the ledger. May be called once at a time.
    Task<void> participate(std::shared_ptr<const allreduce::RoundInput> input);
    // Takes no part in votes after the next commit: this peer is about to leave.
    void set_leaving(bool leaving);
    // This peer hosts, and its ledger has just begun.
    void begin_run() { acceptor_->begin_run(); }
    // The ledger has accepted this decision.
    void decided(const consensus::Link& link);
    // The ledger has moved for a reason outside (state downloaded, certificate from elsewhere).
    void ledger_moved();
    // This peer's link: measured in rounds, at most what the user grants.
    OwnLink& link() { return link_; }
    const OwnLink& link() const { return link_; }
    // When the plan of a commit came to us, or was made here; nothing: it never did, or we have
    // forgotten it.
    std::optional<TimePoint> planned_at(const consensus::Decision& commit) const;
    // Tells what this process, as an owner, left out of a commit's sums.
    std::vector<allreduce::LeftOut> left_out(const consensus::Decision& commit,
                                             const consensus::RoundPlan& plan) const;

  private:
    explicit Coordinator(RoundEnvironment environment);
    void assemble();
    consensus::ProposerHooks proposer_hooks();

    Task<void> drive();
    Task<void> one_turn(consensus::Base base);
    Task<void> until_advanced(Digest previous);
    Task<void> lead(consensus::Base base);
    Task<void> open_branch(consensus::Base base);
    Task<void> watch_sleep();
    std::vector<consensus::Voter> survivors(const consensus::Base& base,
                                            const std::set<PeerId>& refused) const;
    std::set<PeerId> audience() const;
    void learn_from_newest_commit();

    const RoundEnvironment environment_;
    consensus::PeerScore scores_;
    links::Timeouts timeouts_;
    events::Complaints complaints_;
    allreduce::TransferEnvironment transfers_;
    allreduce::Exchanges exchanges_;
    allreduce::PartFetcher fetcher_;
    CommitAverages averages_;
    EvidenceStore evidence_;
    PendingOrders pending_orders_;
    consensus::ConsensusEnvironment consensus_;
    OpenRound open_;
    Announcements announcements_;
    OwnLink link_;
    // With a memory of votes, once it has been read.
    std::unique_ptr<consensus::Acceptor> acceptor_;
    std::unique_ptr<LeaderElection> election_;
    std::unique_ptr<RoundParts> parts_;
    std::unique_ptr<consensus::Proposer> proposer_;
    PartsService parts_service_;
    std::unique_ptr<RoundService> service_;
    std::unique_ptr<consensus::ConsensusService> certificates_;
    std::unique_ptr<Following> following_;
    std::unique_ptr<RoundProofs> proofs_;
    std::vector<std::unique_ptr<Phase>> phases_;
    runtime::Event turn_over_;
    runtime::Scope scope_;
};

}  // namespace dedloc::averaging
