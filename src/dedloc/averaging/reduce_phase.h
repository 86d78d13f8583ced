// ReducePhase: the leader waits for the averages of its plan, and has parts reduced again whose
// owner fails, or that leave out somebody who is there.
#pragma once
#include "dedloc/averaging/phase.h"
#include "dedloc/averaging/round_parts.h"

namespace dedloc::averaging {

class ReducePhase final : public Phase {
  public:
    explicit ReducePhase(RoundParts& parts) : parts_(parts), environment_(parts.environment) {}

    std::string_view name() const override { return "reduce"; }
    Task<PhaseEnd> begin(std::shared_ptr<Attempt> attempt) override;
    TimePoint deadline(const Attempt& attempt) const override {
        return attempt.exchange ? attempt.exchange->round_deadline() : environment_.now();
    }
    bool complete(const Attempt& attempt) const override {
        return attempt.exchange && attempt.exchange->complete();
    }
    std::vector<std::uint32_t> failed_parts(const Attempt& attempt) const override {
        if (!attempt.exchange) return {};
        return attempt.exchange->collected().failed_parts();
    }

  private:
    Task<void> reduce(std::shared_ptr<allreduce::Exchange> exchange);
    Task<void> repair(std::shared_ptr<allreduce::Exchange> exchange,
                      std::vector<std::uint32_t> parts,
                      std::uint32_t number);
    Task<void> include_more(std::shared_ptr<allreduce::Exchange> exchange, std::uint32_t number);
    void send_repair(const std::shared_ptr<allreduce::Exchange>& exchange,
                     const std::vector<std::uint32_t>& parts,
                     std::uint32_t number);

    RoundParts& parts_;
    const RoundEnvironment& environment_;
};

}  // namespace dedloc::averaging
