// The picture of `dedloc-lab fleet --plot`: accuracy, hours and dollars of each way to train the
// same, as bars.
//
// Thread: any; pure.

#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace dedloc::lab {

struct FleetLine {
    std::string mode{};
    std::string machines{};  // in words
    std::uint64_t rounds = 0;
    double hours = 0;
    double steps_a_day = 0;
    double samples = 0;          // in the model
    double samples_outside = 0;  // computed, and not in it at the end
    int preemptions = 0;
    int silent = 0;  // of them, without a notice
    double machine_hours = 0;
    double usd = 0;
    double loss = 0;
    double accuracy = 0;
    bool identical = true;
};

std::string fleet_svg(const std::vector<FleetLine>& lines, const std::string& dated);

}  // namespace dedloc::lab
