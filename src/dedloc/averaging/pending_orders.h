// PendingOrders: orders that are to come into the next decisions, with their evidence; and, for a
// voter, whether the evidence of those in another's decision proves them.
//
// A peer that has evidence keeps the order here and tells the voters, who look at it and keep it,
// too: a leader that would rather not have it in its decision is followed by one that has. Orders
// for which there is no rule here (those about persons) are the run's own judge's.
//
// Bounds: pending_max orders, one of a subject, kind and offence; evidence as EvidenceStore.
// Thread: the network thread; evidence is looked at on workers. Lifetime: stop() before
// destruction.

#pragma once
#include <functional>
#include <memory>
#include <set>
#include <tuple>
#include <vector>

#include "dedloc/averaging/evidence.h"
#include "dedloc/averaging/evidence_store.h"
#include "dedloc/consensus/order_judge.h"
#include "dedloc/runtime/scope.h"

namespace dedloc::averaging {

inline constexpr std::size_t pending_max = 64;
inline constexpr const char* order_method = "/dedloc/round/1/charge";

struct ProposedOrder {
    robust::Order order;
    Bytes evidence;
};

inline constexpr std::uint64_t eliminated_for_steps = 50;
inline constexpr std::uint64_t withheld_for_steps = 20;  // of probation, if nobody vouches before

// An order of the step that is open.
ProposedOrder propose_order(const consensus::Base& base,
                            const PeerId& subject,
                            robust::OrderKind kind,
                            robust::Offence offence,
                            const Evidence& evidence);

// Collects what is known here of an order about `subject`, for a worker, which may not ask the
// ledger.
EvidenceContext evidence_context(const RoundEnvironment& environment, const PeerId& subject = {});

class PendingOrders final : public consensus::OrderJudge {
  public:
    PendingOrders(const RoundEnvironment& environment, EvidenceStore& store);

    void start();
    Task<void> stop();
    // For offences that are proved elsewhere.
    EvidenceRules& rules() { return rules_; }
    // A decision was accepted: what it settles is forgotten.
    void forget_settled();
    // Our own evidence: kept, and told to the voters.
    void add(ProposedOrder proposed);
    // Another peer's order. Errors: peer_broke_protocol: it proves nothing.
    Task<Result<void>> take(robust::Order order, PeerId from);

    // consensus::OrderJudge
    std::vector<robust::Order> orders_for(const consensus::Base& base,
                                          const consensus::Decision& decision) override;
    Task<Result<void>> check(std::shared_ptr<const consensus::Decision> decision,
                             robust::OrderChanges changes,
                             PeerId proposer) override;

  private:
    // Evidence of one peer's offence proves nothing about another's.
    using Proved = std::tuple<PeerId, robust::OrderKind, robust::Offence, Digest>;
    static Proved key_of(const robust::Order& order) {
        return {order.subject, order.kind, order.offence, order.evidence};
    }

    Task<Result<Bytes>> on_order(PeerId from, Bytes request);
    Task<void> add_vouch(robust::Order vouch);
    void tell_voters(const robust::Order& order);
    Task<void> tell(PeerId peer, Bytes message);
    // We must know of what we would propose ourselves what voters may take for granted.
    enum class Purpose { vote, proposal };
    Task<Result<void>> prove(robust::Order order, PeerId from, Purpose purpose);
    // Orders that were proved to other voters; what proves nothing to these is dropped.
    Task<void> prove_again(std::vector<robust::Order> orders);
    bool keep(const robust::Order& order);
    void drop(const robust::Order& order);
    void propose_falsely(const consensus::Base& base, robust::Orders& orders) const;

    const RoundEnvironment& environment_;
    EvidenceStore& store_;
    EvidenceRules rules_;
    std::vector<robust::Order> pending_;
    std::set<Proved> proved_;                  // looked at here, of the newest orders …
    std::vector<consensus::Voter> proved_by_;  // … while these voted
    Digest branch_;                            // that `pending_` is about
    std::set<PeerId> proposing_;
    p2p::Handlers handlers_;
    runtime::Scope scope_;
};

}  // namespace dedloc::averaging
