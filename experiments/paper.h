// `dedloc-lab paper`: the DeDLOC paper's controlled experiment: in virtual time, on the real
// engine; or, smaller, with real processes in network namespaces.
//
// ALBERT-large's vector (17,847,474 numbers, fp16), target batch 4,096; 16 trainers that compute 21
// samples a second each (what hivemind's README measured for one GPU; --samples-per-s), with lines
// of 4 x 200, 8 x 100 and 4 x 50 Mb/s. To be done in minutes both the vector and the rates are
// divided by --scale, which leaves all times as they are, latencies aside. In namespaces there are
// half as many of each, lines are an eighth as fast, and batches and the vector such that all takes
// half the time.
//
//   fast        all lines 25 Gb/s (the paper's reference)
//   equal       4/8/4, no balancing: everybody grants plans the same, so that parts are equal
//   balanced    4/8/4, plans know the lines
//   aux         balanced + 4 aggregators of 500 Mb/s
//   part-time   balanced + 8 trainers of 100 Mb/s that come and go
//   home        16 trainers with home lines: 20 Mb/s up, 200 down (not in the paper)
//   home-aux    home + 4 aggregators of 500 Mb/s
//
// Prints a table and writes paper.json, paper.svg (time of a step, split; loss against time).
//
// Errors: exit code 9 if balancing does not beat equal parts by the predicted ratio, aggregators or
// part-time trainers do not help, or two replicas differ; 6 for files.

#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace dedloc::lab {

struct PaperCommand {
    std::uint64_t steps = 0;  // of each setup; 0: 12, in namespaces 8; twice where some come and go
    bool in_namespaces = false;     // real processes on shaped lines
    std::size_t trainers = 0;       // a multiple of four; 0: 16, in namespaces 8
    std::uint64_t scale = 0;        // of the vector; 0: 8, in namespaces 16
    double samples_per_s = 21;      // of one trainer
    std::vector<std::string> only;  // names of setups; empty: all, and they are compared
    std::string directory = ".";
    std::string program;  // the dedloc to start in namespaces; empty: this one
    std::uint64_t seed = 1;
    bool json = false;
};

std::vector<std::string> paper_setup_names();
int run_paper(const PaperCommand& command);

}  // namespace dedloc::lab
