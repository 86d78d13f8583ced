// `dedloc-lab storm`: a thousand hostile strangers at the port of a peer in mid-training, and what
// it costs: the collaboration's time per step, the peer's memory.
//
// Strangers do one of these, again as soon as they are hung up on: say nothing; send garbage as
// fast as it is taken; send one right letter now and then; claim messages that are too long; begin
// TLS and go away; begin TLS and wait; offer TLS the costliest key exchange alone; send half of a
// proposal and close their side; connect and reset.
//
// Then floods by strangers who have shown an identity (storm_floods.h), one kind after another.
//
// Prints slowdown (of the mean step, 0.1 = 10 %) and peak_mb (the host's resident memory at its
// highest); for each flood `speed`, which is that beside the flood by that beside a neighbour which
// only computes as much; kept_mb, what the host holds more a minute later, beyond what another
// peer does.
// Exit status: 0 all within their limits (speed ≥ 0.9, 50 MB more), 9 not. Thread: one, and one for
// the strangers.
// Errors: on standard error.

#pragma once
#include <string>

namespace dedloc::lab {

struct StormCommand {
    int dialers = 1000;
    double seconds = 20;  // before the storm, and of the storm
    std::string program;  // empty: this one
    bool json = false;
};

int run_storm(const StormCommand& command);

}  // namespace dedloc::lab
