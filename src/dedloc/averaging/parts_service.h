// PartsService: answers for the bytes of parts, the same for a member and an aggregator: streams of
// parts, parts that were reduced and are fetched, repairs of a plan.
//
// Thread: the network thread. Lifetime: stop() before destruction.

#pragma once
#include <memory>

#include "dedloc/allreduce/exchanges.h"
#include "dedloc/averaging/environment.h"
#include "dedloc/p2p/handlers.h"

namespace dedloc::averaging {

class PartsService {
  public:
    PartsService(const RoundEnvironment& environment,
                 allreduce::Exchanges& exchanges,
                 events::Complaints& complaints)
        : environment_(environment),
          exchanges_(exchanges),
          complaints_(complaints),
          handlers_(environment.host) {}

    void start();
    Task<void> stop() { return handlers_.stop(); }

  private:
    Task<Result<Bytes>> on_repair(PeerId from, Bytes request);
    Task<Result<Bytes>> on_fetch(PeerId from, Bytes request);
    Task<void> on_parts(std::unique_ptr<p2p::MessageStream> stream);

    const RoundEnvironment& environment_;
    allreduce::Exchanges& exchanges_;
    events::Complaints& complaints_;
    p2p::Handlers handlers_;
};

struct SignedPlan {
    consensus::RoundPlan plan;
    Digest digest;
};

// Reads a plan for the step that is open here, and on our state if it `needs_state`; signed by its
// leader. Errors: peer_broke_protocol; conflict: it is for another step.
Result<SignedPlan> read_plan(const RoundEnvironment& environment,
                             const PeerId& from,
                             ByteView request,
                             bool needs_state);

}  // namespace dedloc::averaging
