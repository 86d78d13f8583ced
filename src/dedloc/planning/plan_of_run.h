// A run as a plan file (docs/plan.md): who is there now, with the lines and speeds that they
// measured. `dedloc watch --print-plan` prints it, `dedloc plan` reads it.
//
// A rate that a peer has not measured yet counts as the median of the others, and the file says so.
// Names came from peers: each becomes one that is printable, quoted and nobody else's.

#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "dedloc/membership/status.h"
#include "dedloc/run/run_file.h"

namespace dedloc::planning {

// The peer belongs into a plan: a trainer or an aggregator, and not about to leave.
bool is_planned(const membership::Status& peer);

// Thread: any; pure. One of the peers is a trainer.
std::string plan_of_run(const run::RunFile& run,
                        std::span<const membership::Status> peers,
                        std::uint64_t elements_count);

// Numbers in the run's averaged vector; nothing: this machine cannot make the run's model, as it
// lacks the data or libtorch. May load the data, where the
// task's size does not follow from the run file alone.
std::optional<std::uint64_t> vector_elements(const run::RunFile& run);

}  // namespace dedloc::planning
