// Certificates that were slept through: from a peer that knows more of the chain.
//
// Thread: the network thread. Cancel: what was accepted stays.

#pragma once
#include "dedloc/averaging/context.h"

namespace dedloc::averaging {

// Accepts what follows our newest certificate, page by page, as `peer` knows it. True: it knows
// ours and nothing after it (any more). False: its chain is another one, or begins after ours.
// Errors: as calls.
Task<Result<bool>> follow_chain(RoundContext& context, PeerId peer);

// The newest certificate of `peer`; empty: it knows none. Errors: as calls.
Task<Result<Bytes>> newest_certificate(RoundContext& context, PeerId peer, TimePoint deadline);

Result<Decision> decision_of(ByteView certificate);

// Is a chain that ends in `theirs` to be preferred to one that stands on `ours`? Of one branch the
// longer one, of two the one with more committed samples.
bool is_better(const Base& ours, const Decision& theirs);

}  // namespace dedloc::averaging
