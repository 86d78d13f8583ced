// For tests of tasks. Of the tests only.
#pragma once
#include "dedloc/base/peer_id.h"

namespace dedloc::tasks {

// A peer whose id is no key's.
inline PeerId made_peer(std::uint8_t number) {
    Bytes multihash{0x00, 36, 0x08, 0x01, 0x12, 32};
    multihash.resize(38, number);
    return *PeerId::from_bytes(multihash);
}

}  // namespace dedloc::tasks
