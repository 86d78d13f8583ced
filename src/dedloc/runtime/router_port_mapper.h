// The real PortMapper: NAT-PMP and UPnP's Internet Gateway Device, spoken to the default gateway.
//
// Debian's libnatpmp and libminiupnpc do the talking, in the helper program dedloc-ask-router,
// which lives for one question: they block, and they parse what anybody in the local network may
// send. The helper has no more than 256 MiB, 5 s of processor time and none of our files; whoever
// gives up on it kills it (docs/decisions/0006).
//
// Thread: the network thread. Cost: a process of some milliseconds a question; NAT-PMP answers in a
// round trip, UPnP in about 1.5 s, and that nobody answers is known after 2 to 4 s.
// Errors: as PortMapper; local_fault also where the helper program is missing.

#pragma once
#include <memory>
#include <string>

#include "dedloc/runtime/port_mapper.h"

namespace dedloc::runtime {

class Clock;

// `program`: another helper than the one that lies beside this program (tests).
std::unique_ptr<PortMapper> router_port_mapper(Executor executor,
                                               Clock& clock,
                                               std::string program = {});

}  // namespace dedloc::runtime
