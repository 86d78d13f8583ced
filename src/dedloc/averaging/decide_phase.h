// DecidePhase: the leader proposes what has come of the attempt: a commit of whole averages, or an
// abort.
#pragma once
#include "dedloc/averaging/phase.h"
#include "dedloc/averaging/round_parts.h"
#include "dedloc/consensus/proposer.h"

namespace dedloc::averaging {

class DecidePhase final : public Phase {
  public:
    DecidePhase(RoundParts& parts, consensus::Proposer& proposer, consensus::OrderJudge& judge)
        : parts_(parts), environment_(parts.environment), proposer_(proposer), judge_(judge) {}

    std::string_view name() const override { return "decide"; }
    Task<PhaseEnd> begin(std::shared_ptr<Attempt> attempt) override;
    TimePoint deadline(const Attempt&) const override {
        return environment_.now() + parts_.open.usual_deadline();
    }
    bool complete(const Attempt& attempt) const override { return attempt.decided; }

  private:
    consensus::Decision make_decision(const Attempt& attempt) const;
    std::vector<consensus::Voter> next_voters(const consensus::Base& base,
                                              const consensus::Decision& decision,
                                              const consensus::RoundPlan* plan) const;

    RoundParts& parts_;
    const RoundEnvironment& environment_;
    consensus::Proposer& proposer_;
    consensus::OrderJudge& judge_;
};

}  // namespace dedloc::averaging
