// Parts that somebody in the group may hold already, when the leader lacks them.
//
// Each part is asked of one member at a time: it may be large, and the link full. Members are asked
// side by side, for different parts.
// Thread: the network thread.

#pragma once
#include <memory>
#include <vector>

#include "dedloc/allreduce/exchange.h"

namespace dedloc::allreduce {

// Ends when each of `parts` is in `exchange`, or everybody in `members` has answered that it lacks
// it, or has not answered in time; or when none has come for a quarter of what was left of the
// round, but a small answer's time at least.
Task<void> collect_held_parts(const TransferEnvironment& environment,
                              std::shared_ptr<Exchange> exchange,
                              std::vector<PeerId> members,
                              std::vector<std::uint32_t> parts);

}  // namespace dedloc::allreduce
