// The grid of experts as views show it: lines for people, an object for scripts. Keeps
// when each expert was last seen to have learnt.
//
// Thread: one. Cost: O(experts) a call.

#pragma once
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "dedloc/experts/grid_view.h"

namespace dedloc::peer {

class GridLines {
  public:
    void update(const experts::GridSeen& seen, double now);
    // "experts: 15 of 16 served, 2 without an answer", then a line a server: its name, its experts'
    // names, calls, wait, failures, and how long ago one of them learnt. `names`: what peers call
    // themselves; others are shown by the end of their ids.
    std::vector<std::string> lines(double now, const std::map<PeerId, std::string>& names) const;
    nlohmann::ordered_json json(double now) const;

  private:
    struct Learnt {
        std::uint64_t updates = 0;
        double at = 0;  // when it was seen to change; 0: not yet
    };
    experts::GridSeen seen_;
    std::map<std::string, Learnt> learnt_;
};

}  // namespace dedloc::peer
