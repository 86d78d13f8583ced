// Fetching finished parts from whoever has them, by the digest of their bytes.
//
// Thread: the network thread. Cancel: nothing is left behind.

#pragma once
#include <vector>

#include "dedloc/averaging/context.h"

namespace dedloc::averaging {

// Asks one candidate after the other until the bytes are there; keeps them in the part store. Who
// does not answer goes to the end of `candidates`, which several fetches share.
// Errors: not_found (nobody has them), timeout.
Task<Result<SharedBytes>> fetch_part(RoundContext& context,
                                     FinishedPart header,
                                     std::shared_ptr<std::vector<PeerId>> candidates,
                                     TimePoint deadline);

// All parts of a commit, a few at a time. Candidates that are connected are asked first.
Task<Result<void>> fetch_parts(RoundContext& context,
                               std::vector<FinishedPart> parts,
                               std::vector<PeerId> candidates,
                               TimePoint deadline);

// Answers fetch calls from the part store.
Result<Bytes> answer_fetch(const PartStore& parts, ByteView request);

}  // namespace dedloc::averaging
