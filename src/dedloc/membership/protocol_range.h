// Versions of what the members of a run say to each other, in all methods from the hello on.
// At the hello each side tells the oldest and the newest that it speaks, and both use the newest
// that both know. A peer that tells none is of the time before there was a range: it speaks 1.
//
// protocol_newest is raised where an older peer would misunderstand what is said. A new field,
// which it skips, or a new method, which it refuses, needs none. protocol_oldest is raised when
// nobody here answers any more as that version does.
//
// Thread: any; pure. Errors: conflict, a sentence for the caller that names both and says which to
// get; peer_broke_protocol.

#pragma once
#include <cstdint>
#include <string>

#include "dedloc/base/peer_id.h"
#include "dedloc/base/result.h"

namespace dedloc::membership {

inline constexpr std::uint64_t protocol_oldest = 1;
inline constexpr std::uint64_t protocol_newest = 1;
inline constexpr std::size_t release_bytes_max = 64;  // of what is told for people

struct ProtocolRange {
    std::uint64_t oldest = 1;
    std::uint64_t newest = 1;
    std::string release;  // of dedloc, as a peer told it; empty: not told

    std::string printable_release() const;
};

ProtocolRange own_protocols();
std::string to_text(const ProtocolRange& range);  // "1", "2 to 3"

// The version that both use.
Result<std::uint64_t> agree_on_protocol(const ProtocolRange& caller,
                                        const ProtocolRange& callee,
                                        const PeerId& callee_id);

}  // namespace dedloc::membership
