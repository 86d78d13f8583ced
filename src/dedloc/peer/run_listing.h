// Lists a run under its name, for `dedloc find`.
//
// Thread: the owner's. `node` and what belongs to it keep the name for as long as they live.

#pragma once
#include "dedloc/collab/collaboration_service.h"

namespace dedloc::peer {

// The service has begun.
void list_run(collab::Node& node,
              const collab::CollaborationService& service,
              const collab::Invitation& invitation);

}  // namespace dedloc::peer
