// RoundLimit: whose line limits rounds. The peer that plans a round knows it and tells no other
// peer, and peers take turns: this peer's newest plan holds for limit_steps_max steps.
//
//   limit.add(event);                                   // in order
//   if (const auto* planned = limit.newest()) …         // its bottleneck, and of which step
//
// Thread: any; values. Cost: of a plan, its copy.

#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "dedloc/events/events.h"
#include "dedloc/membership/status.h"

namespace dedloc::monitor {

inline constexpr std::size_t limit_steps_max = 10;  // that others may plan before ours is old

class RoundLimit {
  public:
    // A plan of this peer whose round led to a step.
    struct Planned {
        std::uint64_t step = 0;
        events::PlanMade plan;
    };

    void add(const events::Event& event);
    // The newest; null: others planned the newest limit_steps_max steps.
    const Planned* newest() const;

  private:
    std::optional<events::PlanMade> plan_;  // since the last step
    std::optional<Planned> planned_;
    std::size_t steps_since_ = 0;
};

// Whether rounds have measured the line that limits this plan; a line that they have not is planned
// with as if it were a usual one. Nothing: its peer has no status here.
std::optional<bool> is_limit_measured(const events::PlanMade& plan,
                                      const std::vector<membership::Status>& statuses);

}  // namespace dedloc::monitor
