// StepBooks: what a certified step means for what this peer brought: is it in, where did the time
// go, what does the event say, whom do others' contributions make known.
//
// Thread: the network thread.

#pragma once
#include <memory>
#include <optional>

#include "dedloc/averaging/coordinator.h"
#include "dedloc/collab/averaging_backend.h"
#include "dedloc/optim/optimizer.h"

namespace dedloc::collab {

class StepBooks {
  public:
    explicit StepBooks(const BackendContext& context) : context_(context) {}

    // A commit was accepted. `planned`: when its plan came here, if it did; `left_out`: of its
    // sums, by this peer as their owner.
    void committed(const consensus::Decision& decision,
                   const consensus::RoundPlan& plan,
                   std::optional<TimePoint> planned,
                   std::vector<allreduce::LeftOut> left_out);
    // Books a decision that was applied and gave the state of this hash.
    events::StepMade applied(const consensus::Decision& decision,
                             const consensus::RoundPlan& plan,
                             const optim::UpdateReport& optimizer,
                             const Digest& state_hash);
    // Another state takes the place of ours: what was computed for the old one belongs nowhere.
    void begin_anew();

  private:
    BackOff::Fate fate_of(const consensus::RoundPlan& plan,
                          const consensus::Decision& decision,
                          std::optional<std::size_t> mine) const;

    const BackendContext& context_;
};

}  // namespace dedloc::collab
