// `dedloc-lab experts --processes`: a model larger than any of its machines, in real processes.
//
// One peer trains the mixture-of-experts classifier, four servers hold its experts, each under a
// limit of its memory (RLIMIT_DATA) such that the model is at least 2.5 times what one may hold.
// One is killed; a replacement comes; another is stopped. Every time the experts must answer again
// within 30 s from their keepers, no pass may take longer than its deadline, and the run must reach
// its accuracy.
//
// Thread: one. Exit status: 0; 9 if a figure misses its bound.

#pragma once
#include <string>

namespace dedloc::lab {

struct ExpertsProcessesCommand {
    std::string folder;  // empty: a temporary one
    bool keep = false;
    bool json = false;
};

int run_experts_processes(const ExpertsProcessesCommand& command);

}  // namespace dedloc::lab
