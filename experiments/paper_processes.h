// One setup of `dedloc-lab paper` with real peers: processes of dedloc, each in a network namespace
// at the end of a shaped line, which find out what their lines carry by themselves.
//
// The cost of computing is told (the synthetic task sleeps), so that a small machine can be many:
// 2 cores are enough for ten peers on lines of some Mb/s.
//
// Needs root. Blocks until the steps are made. Thread: one. Errors: local_fault (a peer ended, no
// namespaces), timeout (steps did not come).

#pragma once
#include <cstdint>
#include <string>

#include "dedloc/base/result.h"

#include "experiments/paper_setups.h"

namespace dedloc::lab {

struct PaperProcessesOptions {
    std::string program;  // the dedloc to start
    std::uint64_t steps = 12;
    std::uint64_t lines_divisor = 8;
    double time_divisor = 2;  // the vector is smaller by both
    double samples_per_s = 21;
};

Result<PaperRun> run_paper_processes(const PaperProcessesOptions& options, const PaperSetup& setup);

}  // namespace dedloc::lab
