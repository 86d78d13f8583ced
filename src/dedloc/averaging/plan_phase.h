// PlanPhase: the leader plans the round and sends the plan to its members.
#pragma once
#include "dedloc/averaging/phase.h"
#include "dedloc/averaging/round_parts.h"
#include "dedloc/averaging/round_planner.h"

namespace dedloc::averaging {

class PlanPhase final : public Phase {
  public:
    explicit PlanPhase(RoundParts& parts) : parts_(parts), environment_(parts.environment) {}

    std::string_view name() const override { return "plan"; }
    Task<PhaseEnd> begin(std::shared_ptr<Attempt> attempt) override;
    TimePoint deadline(const Attempt&) const override { return environment_.now(); }
    bool complete(const Attempt& attempt) const override { return attempt.exchange != nullptr; }

  private:
    std::map<PeerId, Announce> announces_for(const consensus::Base& base) const;
    std::optional<LastToCome> last_came(const consensus::Base& base) const;
    std::shared_ptr<allreduce::Exchange> send_plan(consensus::RoundPlan plan);

    RoundParts& parts_;
    const RoundEnvironment& environment_;
};

}  // namespace dedloc::averaging
