// Service: what a node does for others. A process may run several: it may train, serve experts and
// relay at once. What it is for the others, its role, follows from its services.

#pragma once
#include "dedloc/membership/status.h"
#include "dedloc/runtime/task.h"

namespace dedloc::collab {

class Service {
  public:
    virtual ~Service() = default;
    virtual membership::Role role() const = 0;
    // Network thread: ends all its tasks at once, saying nothing. May be called again.
    virtual Task<void> stop() = 0;
    // Network thread: bytes per second that it may count on from now on; 0: whatever there is.
    virtual void set_caps(double upload_max, double download_max) {
        (void)upload_max;
        (void)download_max;
    }
};

}  // namespace dedloc::collab
