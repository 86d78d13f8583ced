// GridWatch: looks at the experts of a run again and again, for views of it.
//
// Cost: one look-up in the table an expert and one call a server each time; larger grids are looked
// at less often. Thread: start and seen: the owner's, never the network thread. Lifetime: the node
// ends it.

#pragma once
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "dedloc/collab/node.h"
#include "dedloc/experts/grid_view.h"
#include "dedloc/membership/status.h"
#include "dedloc/run/run_file.h"

namespace dedloc::peer {

class GridWatch {
  public:
    // Does nothing in a run without experts.
    void start(const collab::Node& node, const run::RunFile& run);
    // As it was some seconds ago; none: the run has no experts, or nothing was heard yet.
    std::optional<experts::GridSeen> seen() const;

    struct Slot;

  private:
    const collab::Node* node_ = nullptr;
    std::shared_ptr<Slot> slot_;  // the network thread's
};

// Peers call themselves so.
std::map<PeerId, std::string> names_of(const std::vector<membership::Status>& statuses);

}  // namespace dedloc::peer
