// VisitingNode: the node of a command that looks at a run and stays no part of it. It listens
// nowhere and has a fresh identity in a temporary folder. A run that lets in by invitation knows
// devices only: there it is the peer that `join` would be with the same string, in that peer's
// folder, where the token stays.
//
// Errors: as open_node(); disk. Thread: the owner's.

#pragma once
#include <memory>
#include <string>

#include "dedloc/collab/collaboration_service.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/node_opening.h"

namespace dedloc::peer {

class VisitingNode {
  public:
    // `directory`: of the peer of an invited run; empty: the first free one of the run.
    static Outcome<std::unique_ptr<VisitingNode>> open(const std::string& join_text,
                                                       const std::string& directory);
    ~VisitingNode();
    VisitingNode(const VisitingNode&) = delete;
    VisitingNode& operator=(const VisitingNode&) = delete;

    collab::Node& node() const { return *opened_.node; }
    // Asks the run's peers for its run file, with this peer's token where one is needed.
    Result<collab::Invitation> reach(Duration timeout) const;

  private:
    VisitingNode() = default;

    std::string join_text_;
    std::string temporary_;  // removed at the end; empty: there is none
    OpenedNode opened_;
};

}  // namespace dedloc::peer
