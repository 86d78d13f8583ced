// Exchanges: the data of the plans that this peer takes part in. Each is kept until newer ones push
// it out, so that slower members can still read from us; streams and repairs find theirs here.
//
// A leader has one exchange a step: its next plan, which a majority has promised to before it is
// made, takes the place of the one before. Where there is no room, those of decided steps go first.
//
// Thread: the network thread. Lifetime: stop() before destruction. Limits: kept_max plans.

#pragma once
#include <deque>
#include <map>
#include <memory>
#include <set>

#include "dedloc/allreduce/exchange.h"

namespace dedloc::allreduce {

class Exchanges {
  public:
    Exchanges(const TransferEnvironment& environment, std::size_t kept_max);
    ~Exchanges();

    // Checks another's plan before it is begun: conflict if a later one of its leader is here.
    Ok check_turn(const consensus::RoundPlan& plan, const Digest& digest);
    std::shared_ptr<Exchange> begin(consensus::RoundPlan plan,
                                    Digest digest,
                                    std::shared_ptr<const RoundInput> input);
    std::shared_ptr<Exchange> find(const Digest& plan) const;
    std::shared_ptr<Exchange> newest() const;  // nullptr: none was begun
    // Is there an exchange for the step that is open, with time left?
    bool in_round() const;
    // State that they share: memory, owners that failed, peers out of reach.
    TransferState& state() { return state_; }
    const TransferState& state() const { return state_; }
    // Streams that owners answer now.
    std::size_t serving() const { return serving_; }

    // Takes what others send, from peers that may speak in rounds.
    Result<Bytes> receive_repair(const PeerId& from, ByteView request);
    Task<void> serve(std::unique_ptr<p2p::MessageStream> stream);
    void peer_gone(const PeerId& peer);
    // Sends nothing more under plans for a step that is decided: our contribution, a vector, is
    // freed, and what we left out of sums.
    void forget_inputs();
    Task<void> stop();

  private:
    // The exchange of the same leader, for the same step.
    std::shared_ptr<Exchange> of_leader(const consensus::RoundPlan& plan) const;
    Digest least_needed() const;
    void push_out(Digest plan);
    void overtake(const Digest& plan);
    Task<void> end(std::shared_ptr<Exchange> exchange);

    const TransferEnvironment& environment_;
    TransferState state_;
    std::size_t kept_max_;
    std::map<Digest, std::shared_ptr<Exchange>> exchanges_;
    std::deque<Digest> order_;
    std::deque<Digest> overtaken_;                // by a later one of their leader, lately
    std::set<std::shared_ptr<Exchange>> ending_;  // not joined yet
    std::size_t serving_ = 0;
    runtime::Event begun_;
    runtime::Scope scope_;
};

}  // namespace dedloc::allreduce
