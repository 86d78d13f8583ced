// SlowLink: a trainer whose link is too slow for its samples rests for a while (back_off.h), says
// so, and begins again when its link is faster or the others are too few.
//
// Thread: the network thread; is_on(): any.

#pragma once
#include "dedloc/collab/averaging_backend.h"
#include "dedloc/collab/back_off.h"

namespace dedloc::collab {

class SlowLink {
  public:
    SlowLink(const CollaborationOptions& options,
             const membership::Membership& membership,
             AveragingBackend& backend,
             events::Teller& teller)
        : options_(options), membership_(membership), backend_(backend), teller_(teller) {}

    bool is_on() const { return back_off_.is_on(); }
    // Our contribution had this fate in a step, by a plan of `leader`.
    void decided(BackOff::Fate fate, const PeerId& leader);
    // This peer rests, and there is a reason to begin again.
    bool is_to_end() const;
    // True: it rested until now.
    bool end();

  private:
    void tell();

    const CollaborationOptions& options_;
    const membership::Membership& membership_;
    AveragingBackend& backend_;
    events::Teller& teller_;
    BackOff back_off_;
};

}  // namespace dedloc::collab
