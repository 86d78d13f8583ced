// Ledger: the chain of certificates one peer knows, and where the run stands after it.
//
// Each certificate names the one before it, so that a chain can be checked link by link: the
// signatures must be a majority of the voters that the previous decision named (of a new branch:
// of everybody the new branch names). The newest `kept_max` certificates are kept for peers that
// slept.
//
// Invariant: base() is what the newest accepted decision says. After a commit, base().state is
// unknown until set_state(): the step has to be computed first.
// Thread: the network thread. Errors: values; a bad certificate changes nothing.

#pragma once
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "dedloc/consensus/messages.h"
#include "dedloc/consensus/paxos.h"
#include "dedloc/security/signer.h"

namespace dedloc::consensus {

// Where a chain stands: what the next decision must follow.
struct Base {
    Digest run;
    Instance instance;            // the one to decide next
    Digest previous;              // digest of the newest decision
    std::optional<Digest> state;  // hash of the state the next step starts from
    std::vector<Voter> voters;    // of that instance, sorted
    double branch_samples = 0;
    std::uint64_t number = 0;  // of the newest decision
    robust::Orders orders{};   // of the newest decision
    Protection protection{};   // of the newest decision

    bool voters_may_lie = false;  // as the run says (Ledger::expect_lying_voters)
    // How many of the voters decide.
    std::size_t quorum() const { return consensus::quorum(voters.size(), voters_may_lie); }
    bool newcomers_weigh = true;  // as the run says (Ledger::let_newcomers_weigh_nothing)

    // Does what this peer brings count, or is it only checked? Where newcomers weigh nothing, those
    // weigh who vote or are vouched for; in the first step of a robust run, those who vote.
    bool weighs(const PeerId& peer) const;
    // Is this peer kept out of the open step?
    const robust::Order* barring(const PeerId& peer) const {
        return orders.barring(peer, instance.step);
    }
    bool is_voter(const PeerId& peer) const;
    std::optional<std::uint64_t> voter_incarnation(const PeerId& peer) const;
};

inline constexpr std::string_view vote_domain = "dedloc-vote";
// A vote signs these bytes.
Bytes vote_bytes(const Digest& decision, std::uint32_t ballot);

// The voters' places for one instance: those who can be dialled first, then by hash(previous,
// PeerId). Place 0 leads first. (A leader that nobody can dial is out of reach for all who have no
// connection to it.)
std::vector<PeerId> leader_order(const Digest& previous, const std::vector<Voter>& voters);

// The id of the branch that `survivors` open after `previous`.
Digest branch_id(const Digest& previous, const std::vector<Voter>& survivors);

// One decision of the chain, read once.
struct Link {
    Digest digest;
    Decision decision;
    std::shared_ptr<const RoundPlan> plan;  // of a commit
    Bytes certificate;
    std::vector<PeerId> contributors{};  // those with something in it, if it is a commit
    robust::OrderChanges changes{};      // of orders, by it
};

// The plan of a commit; null: the decision is none. Errors: it cannot be read.
Result<std::shared_ptr<const RoundPlan>> plan_of(const Decision& decision);

// The orders of a decision after `base` that changes none.
std::vector<robust::Order> carried_orders(const Base& base);
// Has the plan no member that orders keep out, weigh those who may, as much as they may, and is its
// tau what follows? Errors: peer_broke_protocol.
Ok check_members_allowed(const RoundPlan& plan, const Base& base);
// The step that is open after a decision.
std::uint64_t step_after(const Decision& decision);

class Ledger {
  public:
    Ledger(const security::Verifier& verifier, std::size_t kept_max, PlantedBugs bugs = {})
        : verifier_(verifier), kept_max_(kept_max), bugs_(bugs) {}

    // Begins from a certificate that is trusted already (genesis, checkpoint, join string).
    Ok start_from(ByteView certificate);
    // Whether it could, by its shape and its signatures. Changes nothing.
    Result<Decision> check_start(ByteView certificate) const;
    bool started() const { return !chain_.empty(); }

    // Verifies and appends the next certificate. false: it was known already.
    // Errors: not_found (does not follow our newest: fetch what is between, or it is another
    // branch), conflict (another state than ours, or a branch that we do not follow yet),
    // peer_broke_protocol (signatures, run, numbers do not hold).
    Result<bool> accept(ByteView certificate);

    // Whether a decision that nobody has signed yet may follow `base`; its plan, if it is a commit.
    // Evidence of orders is not looked at (order_judge.h).
    // Errors: not_found, conflict, peer_broke_protocol.
    Result<std::shared_ptr<const RoundPlan>> check_decision(const Base& base,
                                                            const Decision& decision) const;

    // Asked before a branch is followed that others signed, a majority of our voters or not; none:
    // every branch is.
    void follow_branches_if(std::function<bool(const Decision&)> answer) {
        may_follow_ = std::move(answer);
    }

    // In this run a peer is a newcomer until an order vouches for it: it weighs nothing and does
    // not vote. To be called before the ledger starts.
    // Fewer than a third of them: decisions need two thirds, and one, of the votes.
    void expect_lying_voters() { base_.voters_may_lie = voters_may_lie_ = true; }
    void let_newcomers_weigh_nothing() { newcomers_weigh_ = false; }
    // Steps of this run have a minimum and are bounded. To be called before the ledger starts.
    void protect(const ProtectionRules& rules) { protection_rules_ = rules; }
    void set_state(const Digest& state);
    const Base& base() const { return base_; }

    // Certificates that follow the decision `previous`, oldest first; nullopt if it is not in the
    // kept chain.
    std::optional<std::vector<Bytes>> after(const Digest& previous, std::size_t count_max) const;
    const Bytes& newest() const { return chain_.back().certificate; }
    const Decision& newest_decision() const { return chain_.back().decision; }
    const Link& newest_link() const { return chain_.back(); }
    // The newest commit in the kept chain; nullptr: none.
    const Link* newest_commit() const;
    std::vector<Bytes> tail(std::size_t count_max) const;
    // Committed contributions of a peer in the kept chain.
    std::uint32_t contributions(const PeerId& peer) const;
    // Was it a voter, by a decision of the kept chain?
    bool remembers_voter(const PeerId& peer) const;
    // The same, and true where that chain is still short: a voter that has begun again must not
    // stand against those who remember.
    bool voted_lately(const PeerId& peer) const;

    // Would these samples of `peer` be on this chain twice? Looks at the commits in the kept chain
    // that moved what the open step does, which begins at `moved_from`.
    // Errors: peer_broke_protocol.
    Ok check_not_committed(const PeerId& peer,
                           const MemberInput& input,
                           std::uint64_t moved_from = 0) const;

    // Called after every accepted certificate. There is one listener: the ledger's owner, which
    // says in which order its parts learn of a decision.
    void on_decision(std::function<void(const Link&)> listener) {
        on_decision_ = std::move(listener);
    }

  private:
    // The samples of a peer that are in a fragment of the model already.
    struct Committed {
        std::uint64_t until = 0;           // every sample before this one is in it, or gone
        CounterRange newest;               // the fresh ones of the newest commit with this peer …
        std::vector<ElementRange> ranges;  // … are in it on these
        std::uint64_t number = 0;          // of that decision
    };
    std::vector<PeerId> note_committed(const Link& link);  // returns its contributors
    Ok check_votes(const Certificate& certificate,
                   const std::vector<Voter>& voters,
                   bool all) const;
    Result<Link> read_start(ByteView certificate) const;
    Result<Link> read_next(ByteView certificate) const;
    void append(Link link);

    const security::Verifier& verifier_;
    std::size_t kept_max_;
    PlantedBugs bugs_;
    bool newcomers_weigh_ = true;
    bool voters_may_lie_ = false;
    ProtectionRules protection_rules_;
    std::deque<Link> chain_;
    std::map<std::pair<PeerId, std::uint64_t>, Committed> committed_;  // by where that begins
    Base base_;
    std::function<bool(const Decision&)> may_follow_;
    std::function<void(const Link&)> on_decision_;
};

// A certificate of the run's first decision: the host is the only voter, `state` the start.
Bytes make_genesis(const Digest& run,
                   const Digest& state,
                   Voter host,
                   const security::Signer& signer,
                   std::uint64_t step,
                   double samples,
                   std::vector<robust::Order> orders = {},
                   Protection protection = {});
// A certificate of a branch that begins where `lost` does, a decision that nobody can apply any
// more; `survivor` signs alone.
Bytes make_branch_before(const Decision& lost, Voter survivor, const security::Signer& signer);

// Which members of a commit's plan are in the average at all (at least one part).
std::vector<bool> included_members(const Decision& decision, const RoundPlan& plan);

}  // namespace dedloc::consensus
