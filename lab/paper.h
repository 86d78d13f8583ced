// `dedloc lab paper`: the DeDLOC paper's controlled experiment in virtual time, on the real engine.
//
// ALBERT-large's vector (17,847,474 numbers, fp16), target batch 4,096; 16 trainers that compute 21
// samples a second each (what hivemind's README measured for one GPU; --samples-per-s), with links
// of 4 x 200, 8 x 100 and 4 x 50 Mb/s. To be done in minutes both the vector and the rates are
// divided by --scale, which leaves all times as they are, latencies aside.
//
//   fast        all links 25 Gb/s (the paper's reference)
//   equal       4/8/4, no balancing: links unknown to the planner, so that parts are equal
//   balanced    4/8/4, the planner knows the links
//   aux         balanced + 4 aggregators of 500 Mb/s. The engine has no aggregators yet: this line
//   is
//               the balanced measurement with the round's time scaled by what the planner predicts;
//               marked as predicted everywhere
//   part-time   balanced + 8 trainers of 100 Mb/s that come and go
//
// Prints a table and writes paper.json, paper.svg (time of a step, split; samples against time).
//
// Errors: exit code 9 if balancing does not beat equal parts or two replicas differ; 6 for files.

#pragma once
#include <cstdint>
#include <string>

namespace dedloc::lab {

struct PaperCommand {
    std::uint64_t steps = 12;  // of each setup; the first is not counted
    std::uint64_t scale = 64;
    double samples_per_s = 21;  // of one trainer
    std::string directory = ".";
    std::uint64_t seed = 1;
    bool json = false;
};

int run_paper(const PaperCommand& command);

}  // namespace dedloc::lab
