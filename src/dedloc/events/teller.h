// Teller: whoever notices something tells it here, in one hop. The collaboration adds the time, the
// open step and the names of peers.
//
// Thread: the network thread; calls return at once.

#pragma once
#include <string>

#include "dedloc/events/events.h"

namespace dedloc::events {

class Teller {
  public:
    virtual ~Teller() = default;
    // `peer`: whom it is about; empty: us. `text`: one sentence for people.
    virtual void tell(Any what, PeerId peer, std::string text) = 0;
};

}  // namespace dedloc::events
