// `dedloc-lab paper --task swav`: SwAV on servers, on workstations, and on both together, as in
// DeDLOC's paper, in virtual time on the real engine.
//
// ResNet-50 with SwAV's head (28,411,968 numbers with BatchNorm's, fp16), target batch 32,768:
//
//   server       8 trainers with lines of 1 Gb/s that compute 90 samples a second each
//   workstation  16 with 200 Mb/s and 45 samples a second
//   hybrid       all 24
//
// 90 a second is what SwAV's authors report of a V100 (800 epochs of ImageNet on 64 of them in some
// 50 hours); a 1080 Ti is taken for half of one. Gradients are a bowl's, and take as long as told.
// Vector, parts and lines are smaller by --scale, which leaves times as they are, latencies aside.
//
// Says of each set-up how long the exchange of an average takes (from the plan to the certificate,
// mean), beside what the planner says it must, and samples a second. Writes paper-swav.json and
// paper-swav.svg.
//
// Errors: exit code 9 if an exchange takes more than 1.15 of what is planned, both together bring
// less than 0.9 of what they bring apart, or two replicas differ; 6 for files.

#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace dedloc::lab {

struct PaperSwavCommand {
    std::uint64_t steps = 6;
    std::uint64_t scale = 8;
    std::string directory = ".";
    std::uint64_t seed = 1;
    bool json = false;
};

int run_paper_swav(const PaperSwavCommand& command);

// A set-up as it was measured.
struct PaperSwavBar {
    std::string name;
    double samples_per_s = 0;
    double exchange_s = 0;
    double planned_s = 0;
};
// Bars of samples a second, and below them of the exchange beside what was planned. Pure.
std::string paper_swav_svg(const std::vector<PaperSwavBar>& bars);

}  // namespace dedloc::lab
