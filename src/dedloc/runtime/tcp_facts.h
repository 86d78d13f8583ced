// Asks the kernel what it knows of one TCP connection.

#pragma once
#include <optional>

#include "dedloc/base/time.h"

namespace dedloc::runtime {

// The shortest round trip of the last minutes, of segments and their acknowledgements (TCP_INFO,
// tcpi_min_rtt). nullopt: nothing was acknowledged yet, or no such socket.
std::optional<Duration> least_round_trip(int socket);

}  // namespace dedloc::runtime
