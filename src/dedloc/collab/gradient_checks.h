// GradientChecks: a robust run's checks of others' contributions, as a backend has them.
//
// Thread: the network thread.

#pragma once
#include <memory>
#include <vector>

#include "dedloc/averaging/coordinator.h"
#include "dedloc/collab/averaging_backend.h"
#include "dedloc/collab/order_news.h"
#include "dedloc/validation/validators.h"

namespace dedloc::collab {

class GradientChecks {
  public:
    // In a run that is_checked().
    GradientChecks(const BackendContext& context,
                   averaging::Coordinator& engine,
                   const averaging::Roster& roster,
                   const OrderNews& names);

    void start() { validators_.start(); }
    Task<void> stop() { return validators_.stop(); }
    validation::GradientValidators& validators() { return validators_; }
    // A decision was accepted.
    void decided(const consensus::Decision& decision);
    // A commit was accepted, of a step that began from `state`.
    void certified(const consensus::Link& commit, std::shared_ptr<const state::Snapshot> state);

  private:
    GradientChecks(const BackendContext& context,
                   averaging::Coordinator& engine,
                   const averaging::Roster& roster,
                   const OrderNews& names,
                   const validation::ValidatorOptions& options);

    validation::GradientValidators validators_;
    std::vector<consensus::Voter> voters_;  // of the decision before
};

}  // namespace dedloc::collab
