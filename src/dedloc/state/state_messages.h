// Messages of state transfer (docs/spec/state.md). Pure.

#pragma once
#include "dedloc/wire/message.h"

namespace dedloc::state {

struct ManifestRequest {
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

struct HaveRequest {
    Digest root;
    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.root);
    }
};

// Chunk i is here: bit i % 8, from the lowest, of byte i / 8.
struct HaveReply {
    Bytes bits;
    Bytes coming;  // asked of a donor, and not here yet
    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.bits);
        visit(2, self.coming);
    }
};

}  // namespace dedloc::state
