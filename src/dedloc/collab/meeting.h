// Meeting: how a peer finds those of its run by the addresses that it was given, at the start and
// while it runs; and, for a host that resumes, whether the run lives on somewhere.
//
// Thread: the network thread. Each wait has a deadline.

#pragma once
#include "dedloc/collab/collaboration.h"
#include "dedloc/membership/membership.h"

namespace dedloc::collab {

class Meeting {
  public:
    Meeting(runtime::Node node,
            p2p::Host& host,
            const CollaborationOptions& options,
            membership::Membership& membership)
        : node_(node), host_(host), options_(options), membership_(membership) {}

    // Returns when one member is met. Errors: denied, conflict (another run), peer_gone, timeout.
    Task<Result<void>> meet_somebody(TimePoint deadline);
    // False: nobody answers who has the run's state. Errors: denied: this peer is out of the run.
    Task<Result<bool>> find_living_run(TimePoint deadline);
    // Meets everybody that the join string names, again and again, not only the first who answers:
    // that one may be as new as we are and know nobody who has the state.
    Task<void> keep_meeting();

  private:
    bool sees_living_run() const;

    runtime::Node node_;
    p2p::Host& host_;
    const CollaborationOptions& options_;
    membership::Membership& membership_;
};

}  // namespace dedloc::collab
