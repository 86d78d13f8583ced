// Seconds of the steady clock, for servers: browsers are outside virtual time.
//
// Thread: any.

#pragma once
#include <chrono>

namespace dedloc::web {

inline double steady_seconds() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch())
        .count();
}

}  // namespace dedloc::web
