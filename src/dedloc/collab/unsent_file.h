// UnsentFile: what a sparse codec has not sent yet, in the peer's folder from a leave in order to
// the next start.
//
// File "unsent": fp32 numbers as they lie in memory (little-endian), one a parameter. While a
// process trains the file is empty: one that is found so belonged to a process that was killed, and
// what it had not sent is lost, which is told. What was read is never read again, so that nothing
// is sent twice.
//
// Thread: the network thread; writes on a worker. Errors: a file that cannot be read or has another
// length counts as lost; one that cannot be emptied is left as it is, and not taken up.

#pragma once
#include "dedloc/events/teller.h"
#include "dedloc/replica/unsent_gradients.h"
#include "dedloc/runtime/node.h"

namespace dedloc::collab {

class UnsentFile {
  public:
    UnsentFile(runtime::Node node, events::Teller& teller) : node_(node), teller_(teller) {}

    // The process begins to train; `samples`: more than a contribution of its usually has.
    Task<void> take_up(replica::UnsentGradients& unsent, double samples);
    // The process leaves in order.
    Task<void> keep(const replica::UnsentGradients& unsent);

  private:
    Task<Result<void>> write(Bytes bytes);

    runtime::Node node_;
    events::Teller& teller_;
};

}  // namespace dedloc::collab
