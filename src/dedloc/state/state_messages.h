// Messages of state transfer (docs/spec/state.md). Pure.

#pragma once
#include "dedloc/wire/message.h"

namespace dedloc::state {

// For a state's manifest, or for which of its chunks are here.
struct StateRequest {
    Digest root;
    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.root);
    }
};

struct ChunkRequest {
    Digest root;
    std::uint64_t index = 0;
    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.root);
        visit(2, self.index);
    }
};

// Sets of chunks (base/bits.h).
struct HaveReply {
    Bytes bits;    // they are here
    Bytes coming;  // asked of a provider, and not here yet
    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.bits);
        visit(2, self.coming);
    }
};

}  // namespace dedloc::state
