// The planner of a round: who takes part, who owns how much, and for more members than a group
// holds the grid. A pure function of what members announced.
//
// Thread: any. Cost: the planner's bisection, and a pass over parts.

#pragma once
#include <map>
#include <optional>
#include <set>
#include <string>

#include "dedloc/averaging/environment.h"
#include "dedloc/averaging/messages.h"

namespace dedloc::averaging {

// The one that handed in last, and by how much: so long the others waited for it alone.
struct LastToCome {
    PeerId peer{};
    double seconds = 0;
};

struct RoundQuestion {
    const consensus::Base& base;
    std::uint32_t ballot = 0;
    PeerId me;  // who leads
    const RoundOptions& options;
    std::map<PeerId, Announce> announces;  // the leader's own among them
    std::set<PeerId> not_owners{};         // they let others down lately
    double computing_s = 0;                // of the batch that is there
    Duration usual_round{0};
    Duration average_takes{0};  // over the leader's link, to a newcomer; 0: not known
    std::optional<LastToCome> last_came{};
};

struct PlannedRound {
    consensus::RoundPlan plan;
    events::PlanMade event;
    std::string text;  // for people
};

// Errors: not_found: nobody brings anything; bad_input: nobody may own.
Result<PlannedRound> plan_round(const RoundQuestion& question);

}  // namespace dedloc::averaging
