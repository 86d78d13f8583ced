// Exchange: one member's part in the data of one plan. It streams its contribution to the owners
// (Sender), reduces the parts it owns (PartOwner with a Reducer), and collects the finished ones
// (Collector), at a pace that suits the slowest (Pacing).
//
// Bytes on the wire for a vector of S encoded bytes and P equal owners: 2 S (P-1)/P up and down.
// Thread: the network thread; arithmetic on workers. Lifetime: stop() before destruction.

#pragma once
#include <memory>
#include <optional>
#include <set>
#include <vector>

#include "dedloc/allreduce/collector.h"
#include "dedloc/allreduce/exchange_meter.h"
#include "dedloc/allreduce/kept_inputs.h"
#include "dedloc/allreduce/messages.h"
#include "dedloc/allreduce/own_commitment.h"
#include "dedloc/allreduce/pacing.h"
#include "dedloc/allreduce/part_owner.h"
#include "dedloc/allreduce/sender.h"
#include "dedloc/allreduce/transfer.h"
#include "dedloc/runtime/scope.h"

namespace dedloc::allreduce {

class Exchange {
  public:
    Exchange(const TransferEnvironment& environment,
             TransferState& state,
             consensus::RoundPlan plan,
             const Digest& plan_digest,
             std::shared_ptr<const RoundInput> input);
    ~Exchange();

    void start();
    // Parts get new owners; the caller has checked the leader's signature.
    void add_repair(const Repair& repair);
    // As owner: one member's stream, after its header, which came at `begun`.
    Task<void> serve(std::shared_ptr<p2p::MessageStream> stream,
                     PartsHeader header,
                     TimePoint begun);
    void peer_gone(const PeerId& peer);
    Task<void> stop();

    const consensus::RoundPlan& plan() const { return transfer_.plan; }
    const Digest& digest() const { return transfer_.digest; }
    // Does the plan count on what we bring?
    bool contributes() const { return transfer_.contributes; }
    // Nothing more is sent of what we contribute.
    void forget_input();
    TimePoint started() const { return transfer_.started; }
    TimePoint reduce_deadline() const { return transfer_.reduce_deadline(); }
    // A round like those before has ended by then, and a little more.
    TimePoint usual_end() const {
        return started() + std::chrono::milliseconds(plan().reduce_ms) * 3 / 4;
    }
    TimePoint round_deadline() const { return transfer_.round_deadline(); }
    // The newest sign of life of the plan's leader: the plan, parts and averages from it, and what
    // leader_spoke() was told of.
    TimePoint leader_heard_at() const { return transfer_.leader_heard_at; }
    void leader_spoke() { transfer_.leader_spoke(); }

    // Tells what has come, and what is missing.
    Collector& collected() { return collector_; }
    const Collector& collected() const { return collector_; }
    const std::map<std::uint32_t, consensus::FinishedPart>& finished() const {
        return collector_.finished();
    }
    bool complete() const { return collector_.complete(); }
    // In a robust round, called when the first nonce is revealed here: members that have not
    // committed by now are in no average that is reduced after this.
    void close_to_latecomers();
    // The members that had committed by then; none: the round is still open to everybody.
    const std::optional<std::set<std::uint32_t>>& open_to() const { return transfer_.open_to; }
    runtime::Event& changed() { return collector_.changed(); }
    // In a robust round: what we committed to, once we have, and what others did and brought here.
    const std::shared_ptr<const OwnCommitment>& committed() const { return transfer_.committed; }
    const KeptInputs& kept() const { return kept_; }
    // A member's contribution to a part as we hold it, our own included.
    std::optional<CommittedInput> input_of(std::uint32_t part, std::uint32_t member) const;
    std::optional<std::uint32_t> own_place() const { return transfer_.me; }
    // Returns what this member's link gave until now; no more is measured.
    links::LinkRates end_measuring() { return meter_.end(); }

  private:
    void assign(std::uint32_t owner, std::vector<std::uint32_t> parts, std::uint32_t repair);

    Task<void> commit();

    Transfer transfer_;
    KeptInputs kept_;
    Pacing pacing_;
    Collector collector_;
    ExchangeMeter meter_;
    PartOwner owner_;
    Sender sender_;
    runtime::Scope scope_;  // last: its tasks use all of the above
};

}  // namespace dedloc::allreduce
