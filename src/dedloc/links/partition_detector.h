// The partition detector finds the members that own no parts because they have no way to some other
// member, by what members announce.
//
// A pair without a way cannot exchange parts, so neither end owns any: each other one sends to
// both. But a claim is one peer's word, and who is named cannot show that it is wrong:
//
//   who names somebody      owns nothing itself, whatever else holds;
//   whom it names           owns nothing if the namer names few (named_few), so that all of an
//                           honest namer's contribution comes in. Beyond that the namer is the one
//                           that is cut off: what it brings is missing where those own whom it
//                           cannot reach, unless they, having failed to reach it, say so
//                           themselves;
//   whom half or more name  is the one that is cut off: its namers own parts all the same.
//
// So one peer's word, or its silence, costs few others their parts.
//
// Thread: any; pure. Cost: linear in the claims.

#pragma once
#include <map>
#include <set>
#include <vector>

#include "dedloc/base/peer_id.h"

namespace dedloc::links {

// One of so many members may name so many and be believed at the other end as well.
constexpr std::size_t named_few(std::size_t members) { return members < 16 ? 1 : members / 8; }

// `unreachable`: the peers that each member names, one entry a member.
std::set<PeerId> partitioned_peers(const std::map<PeerId, std::vector<PeerId>>& unreachable);

}  // namespace dedloc::links
