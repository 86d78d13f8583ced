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

}  // namespace dedloc::state
