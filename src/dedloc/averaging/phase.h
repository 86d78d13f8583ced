// Phase: one piece of an attempt to make the open step, at the peer that leads it. The coordinator
// runs its phases in order: gather, plan, reduce, decide. Another phase (a proof between reduce and
// decide, say) is one more object in that list.
//
// Thread: the network thread.

#pragma once
#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

#include "dedloc/allreduce/exchange.h"
#include "dedloc/consensus/ledger.h"

namespace dedloc::averaging {

// One attempt: what a phase leaves to those after it.
struct Attempt {
    consensus::Base base;
    std::uint32_t ballot = 0;
    Duration average_takes{0};  // of gather: over our link, to a newcomer; 0: not known
    std::shared_ptr<allreduce::Exchange> exchange{};  // of plan; null: nobody brings anything
    Digest proof{};              // of prove, in robust runs; zero: the averages are not proved
    consensus::StepSize size{};  // of prove, as the proof tells it
    std::vector<consensus::FinishedPart> proved{};  // those, while others may still come
    bool decided = false;                           // of decide
};

enum class PhaseEnd { go_on, give_up };

class Phase {
  public:
    virtual ~Phase() = default;
    virtual std::string_view name() const = 0;  // for the log
    // Works until it is complete, or its deadline is over and it makes the best of what there is.
    // Cancel: the step has been decided, or another peer leads.
    virtual Task<PhaseEnd> begin(std::shared_ptr<Attempt> attempt) = 0;
    // By when it has ended; never: not known yet.
    virtual TimePoint deadline(const Attempt& attempt) const = 0;
    virtual bool complete(const Attempt& attempt) const = 0;
    // Parts of the plan that it could not finish as planned.
    virtual std::vector<std::uint32_t> failed_parts(const Attempt&) const { return {}; }
    // A step was decided, or another branch is followed.
    virtual void ledger_moved() {}
    // Called several times a second, whether this peer leads or not.
    virtual void tick() {}
};

// A liar of simulations makes plans alone where it is fewer than a third of the voters: two voters,
// one of whom lies, decide nothing.
inline bool plans_alone(const consensus::PlantedBugs& bugs, const consensus::Base& base) {
    constexpr std::size_t voters_least = 4;
    return bugs.plans_alone && base.voters.size() >= voters_least;
}
inline bool leaves_out_minimum(const consensus::PlantedBugs& bugs, const consensus::Base& base) {
    return bugs.plans_alone ? plans_alone(bugs, base) : bugs.minimum_unchecked;
}

}  // namespace dedloc::averaging
