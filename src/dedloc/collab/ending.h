// Ending: how a peer's part in a run comes to its end: the run is over, an order keeps the peer
// out, its owner leaves, all tasks are stopped.
//
// Thread: the network thread; what is atomic: any.

#pragma once
#include <atomic>
#include <string>

#include "dedloc/base/time.h"

namespace dedloc::collab {

struct Ending {
    std::atomic<bool> over{false};
    std::string kept_out{};  // by an order, in words; empty: no
    bool tasks_stopped = false;
    std::atomic<bool> leaving{false};
    TimePoint leave_by = TimePoint::never();  // a leaver has waited long enough

    bool stopped() const { return over || leaving; }
};

}  // namespace dedloc::collab
