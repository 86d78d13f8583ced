// The picture of `dedloc-lab paper`: a bar for each setup with its step's time split into computing
// and averaging, and below it loss against time. Pure.

#pragma once
#include <string>
#include <vector>

namespace dedloc::lab {

struct PaperLine {
    std::string name;
    double step_s = 0;       // of one global step, mean
    double averaging_s = 0;  // of that, when trainers waited for the round
    struct Point {
        double at_s = 0;
        double loss = 0;
    };
    std::vector<Point> points;  // from the first step
};

std::string paper_svg(const std::vector<PaperLine>& lines);

}  // namespace dedloc::lab
