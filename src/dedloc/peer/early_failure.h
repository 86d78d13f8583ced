// Messages of host, join, assist and check --network when they fail before there is a peer to speak
// of.
//
// Thread: any.

#pragma once
#include "dedloc/peer/exit_codes.h"

namespace dedloc::peer {

// The sentence on standard error and, for a script that asked for `json`, the object that is the
// last line of standard output however a command ends. Returns the number for main().
int report_early(const Failure& failure, bool json);

}  // namespace dedloc::peer
