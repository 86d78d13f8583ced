// Whether a plan, and the bytes of an average, are what a member may have to do with.
#pragma once
#include "dedloc/allreduce/environment.h"
#include "dedloc/runtime/workers.h"

namespace dedloc::allreduce {

// True if every field of a plan makes sense for a run with these options: members sorted and
// unique, parts in order and covering what its step moves, each in the codec of its elements,
// indices and durations within bounds. Pure.
Ok check_plan(const consensus::RoundPlan& plan, const TransferOptions& options);
// Are these averages of a certified plan with this digest what voters of this run may accept? A
// liar that votes alone certifies others, too.
bool fits_commit(const consensus::RoundPlan& plan,
                 const Digest& digest,
                 const std::vector<consensus::FinishedPart>& averages,
                 const TransferOptions& options);

// Are these the bytes that the header names, and finite numbers for all of its part? The header
// fits the plan. On a worker.
Task<bool> is_sound(runtime::Workers& workers,
                    const consensus::RoundPlan& plan,
                    consensus::FinishedPart header,
                    SharedBytes encoded);

}  // namespace dedloc::allreduce
