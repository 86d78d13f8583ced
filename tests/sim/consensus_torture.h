// The consensus alone under everything a network and a power cut can do: messages that are lost,
// repeated and come in any order, processes that die between thinking and writing, disks that are
// lost. Whatever happens, at most one decision is ever certified.
//
// Every step is one random choice, so that a seed is one history. Thread: any. Cost: about 0.1 ms.

#pragma once
#include <cstddef>
#include <cstdint>

#include "dedloc/consensus/paxos.h"

namespace dedloc::lab {

struct TortureOutcome {
    std::size_t certified = 0;  // different decisions; more than one is a violation
};

TortureOutcome torture_consensus(std::uint64_t seed, consensus::PlantedBugs bugs);

}  // namespace dedloc::lab
