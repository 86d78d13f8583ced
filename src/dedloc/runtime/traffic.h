// Counts what has gone over a machine's link so far. Two looks at it give the link's rate, whatever
// went: streams of all protocols, relayed ones, handshakes.

#pragma once
#include <cstdint>

namespace dedloc::runtime {

// Never less than at an earlier look. What stays on the machine (loopback) is on no line.
struct Traffic {
    // Taken by the other machines: not what waits in buffers here or is on its way.
    std::uint64_t sent_bytes = 0;
    std::uint64_t received_bytes = 0;
};

}  // namespace dedloc::runtime
