// Routes: who sends what to whom in repair 0 of a plan. Without a grid every contributor sends its
// parts to their owners, who add them. In a grid a member sends a part to the collector of its
// group, which adds; the collectors of a column send their groups' sums to the owner among them;
// the average comes back by the same way. Repairs go straight to the new owners, grid or not.
//
// A reduction adds its inputs in the order of the members that send them, so that the result does
// not depend on arrival.
//
// Pure. Thread: any. Cost: a table of the plan's columns; each question a look-up, sources() a pass
// over the members.

#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <vector>

#include "dedloc/allreduce/messages.h"

namespace dedloc::allreduce {

// Are the plan's groups and columns what a grid needs? Members and owners are checked already.
// Errors: peer_broke_protocol.
Ok check_grid(const consensus::RoundPlan& plan);

class Routes {
  public:
    explicit Routes(const consensus::RoundPlan& plan);

    bool is_grid() const { return plan_.groups > 0; }
    // To whom `member` sends what it has of a part, and from whom it gets the average. The owner's
    // is the owner.
    std::uint32_t next(std::uint32_t member, std::uint32_t part) const;
    // Adds its group's contributions to a part that another one owns.
    bool collects(std::uint32_t member, std::uint32_t part) const;
    // From another group: what it sends is a sum.
    bool sends_sums(std::uint32_t from, std::uint32_t to) const;
    // The members that a collector, or the owner, of a part waits for; itself too, if it
    // contributes.
    std::set<std::uint32_t> sources(std::uint32_t member, std::uint32_t part) const;
    // May the sums of this collector have these members in them?
    bool may_include(std::uint32_t collector, const Bytes& members) const;

  private:
    std::uint32_t column_of_part(std::uint32_t part) const;
    std::uint32_t collector(std::uint32_t group, std::uint32_t column) const {
        return plan_.collectors[column * plan_.groups + group];
    }
    bool contributes(std::uint32_t member) const { return !plan_.members[member].input.is_empty(); }

    const consensus::RoundPlan& plan_;
    std::vector<std::uint32_t> column_of_;     // of members; their number: in none
    std::vector<bool> contributing_groups_{};  // with somebody who brings something
};

}  // namespace dedloc::allreduce
