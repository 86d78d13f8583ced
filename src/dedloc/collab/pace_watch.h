// PaceWatch: tells a user whose line cannot bring this peer the others' steps. Without a word it
// would look as if it joined, or trained, for ever.
//
// Thread: the network thread.

#pragma once
#include <optional>

#include "dedloc/collab/averaging_backend.h"
#include "dedloc/replica/follow_pace.h"

namespace dedloc::collab {

class PaceWatch {
  public:
    explicit PaceWatch(const BackendContext& context) : context_(context) {}

    // Our state stands at step `own`; one step takes so many bytes to follow. An error: it has been
    // so for long, and no join comes of it any more.
    std::optional<Error> observe(std::uint64_t own, double average_bytes);

  private:
    const BackendContext& context_;
    replica::FollowPace pace_;
};

}  // namespace dedloc::collab
