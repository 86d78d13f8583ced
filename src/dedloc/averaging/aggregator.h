// Aggregator: a peer's part in rounds when it has no gradients and no state: it offers to own
// parts, reduces those that plans give it, and follows the chain of certificates to know which
// plans hold.
//
// An aggregator is no Coordinator: it has no vote, leads no round, proposes nothing, and stands on
// no state. It knows of the step by certificates; where it does not know what follows (it is new,
// or slept), it takes the newest one of a better chain (consensus/catch_up.h). Plans are believed
// if they are signed by who owns their ballot there; what becomes of the sums is for the voters to
// judge.
//
// Memory: contributions that wait for slower members, at most RoundOptions::reduce_bytes_max and
// one part a member, and the averages of its parts of the last two plans.
//
// Thread: the network thread. Lifetime: stop() before destruction. Errors: none for users; notes.

#pragma once
#include <memory>
#include <optional>
#include <set>

#include "dedloc/allreduce/exchanges.h"
#include "dedloc/averaging/aggregator_work.h"
#include "dedloc/averaging/environment.h"
#include "dedloc/averaging/full_round.h"
#include "dedloc/averaging/messages.h"
#include "dedloc/averaging/own_link.h"
#include "dedloc/averaging/parts_service.h"
#include "dedloc/consensus/catch_up.h"
#include "dedloc/consensus/sync_candidates.h"
#include "dedloc/links/bandwidth_probe.h"
#include "dedloc/links/rates.h"
#include "dedloc/p2p/handlers.h"

namespace dedloc::averaging {

class Aggregator {
  public:
    explicit Aggregator(RoundEnvironment environment);
    ~Aggregator();

    void start();
    // Offers nothing any more; returns when nobody reads from us and no plan with a part of ours is
    // open, or at the deadline.
    Task<void> leave(TimePoint deadline);
    Task<void> stop();

    // The ledger has accepted this decision.
    void decided(const consensus::Link& link);
    // `peer` knows more than we do, or stands on another branch.
    void inspect(const PeerId& peer) { sync_candidates_.add(peer); }
    // A plan that gives us parts is not decided yet.
    bool busy() const;
    AggregatorWork work() const;
    double upload_bytes_per_s() const;
    double download_bytes_per_s() const;
    // The user grants this from now on, bytes per second; 0: everything.
    void set_caps(double upload_max, double download_max);

  private:
    Task<Result<Bytes>> on_plan(PeerId from, Bytes request);
    Task<Result<Bytes>> on_certificate(PeerId from, Bytes certificate);
    Result<void> receive_plan(const PeerId& from, ByteView request);
    Ok check(const consensus::RoundPlan& plan) const;
    double vector_bytes(const consensus::RoundPlan& plan) const;
    double measured(double probed, const links::GrowingRate& seen) const;
    void count_work(const consensus::Decision& decision, const consensus::RoundPlan& plan);
    void receive_certificate(const PeerId& from, const Bytes& certificate);

    Task<void> announce_loop();
    Task<void> announce_once();
    Task<void> announce_to(PeerId leader);
    void suspect(const PeerId& peer);
    std::optional<PeerId> pick_leader();

    Task<void> catch_up_first();
    Task<void> catch_up_with(PeerId peer);

    const RoundEnvironment environment_;
    consensus::PeerScore scores_;
    links::Timeouts timeouts_;
    LinkCaps caps_;
    events::Complaints complaints_;
    FullRound full_round_;
    allreduce::TransferEnvironment transfers_;
    allreduce::Exchanges exchanges_;
    PartsService parts_service_;
    links::GrowingRate upload_;
    links::GrowingRate download_;
    links::BandwidthProbe probe_;
    AggregatorWork work_;
    std::map<PeerId, TimePoint> suspects_;
    std::optional<PeerId> sent_to_;  // a leader that the one we asked named
    consensus::SyncCandidates sync_candidates_;
    consensus::CatchUp catch_up_;
    bool leaving_ = false;
    bool said_so_ = false;  // that it leaves
    runtime::Event changed_;
    p2p::Handlers handlers_;
    runtime::Scope scope_;
};

}  // namespace dedloc::averaging
