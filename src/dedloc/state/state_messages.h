// Messages of state transfer (docs/spec/state.md). Pure.

#pragma once
#include "dedloc/base/fields.h"
#include "dedloc/wire/message.h"

namespace dedloc::state {

// For a state's manifest, or for which of its chunks are here.
struct StateRequest {
    Digest root;
    DEDLOC_FIELDS(root)
};

struct ChunkRequest {
    Digest root;
    std::uint64_t index = 0;
    DEDLOC_FIELDS(root, index)
};

// Sets of chunks (base/bits.h).
struct HaveReply {
    Bytes bits;    // they are here
    Bytes coming;  // asked of a provider, and not here yet
    DEDLOC_FIELDS(bits, coming)
};

}  // namespace dedloc::state
