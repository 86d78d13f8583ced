// StepComputer: the state that a commit leads to. Decodes the averages, steps the optimizer,
// hashes, all on the workers; begins already when this peer votes, so that votes and certificate,
// which take round trips and a disk, travel meanwhile. What is decided otherwise is thrown away.
//
// Memory: one state beside those in the store; two for a moment where another commit than the
// expected one is certified. Thread: the network thread. Lifetime: stop() before destruction.

#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "dedloc/allreduce/part_store.h"
#include "dedloc/consensus/paxos.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/runtime/event.h"
#include "dedloc/runtime/scope.h"
#include "dedloc/runtime/workers.h"
#include "dedloc/state/manifest.h"

namespace dedloc::replica {

class StepComputer {
  public:
    using StatePointer = std::shared_ptr<const state::PublishedState>;
    struct Stepped {
        StatePointer state;
        StepFacts facts;
    };

    // All outlive this.
    StepComputer(runtime::Executor executor,
                 runtime::Workers& workers,
                 const allreduce::PartStore& parts,
                 const run::RunFile& run,
                 const run::Layout& layout,
                 consensus::PlantedBugs bugs = {});
    ~StepComputer();
    Task<void> stop() { return scope_.stop(); }

    // Told of a state before it is hashed. May be empty.
    using OnNext = std::function<void(std::shared_ptr<const state::Snapshot>)>;

    // `decision`, whose averages are all in the part store, may soon be certified. One at a time:
    // nothing while another one is being computed.
    void expect(const consensus::Decision& decision, StatePointer before, OnNext on_next = {});
    // The averages are in the part store. Errors: not_found (they are not),
    // peer_broke_protocol (they do not fit).
    Task<Result<Stepped>> step(consensus::Decision decision, StatePointer before);

  private:
    struct Expected;
    Task<void> compute_ahead(std::shared_ptr<Expected> expected,
                             consensus::Decision decision,
                             OnNext on_next);
    Task<Result<Stepped>> compute(consensus::Decision decision,
                                  StatePointer before,
                                  OnNext on_next);

    runtime::Workers& workers_;
    const allreduce::PartStore& parts_;
    const run::RunFile& run_;
    const run::Layout& layout_;
    consensus::PlantedBugs bugs_;
    std::shared_ptr<Expected> expected_;
    runtime::Event computed_;
    runtime::Scope scope_;
};

}  // namespace dedloc::replica
