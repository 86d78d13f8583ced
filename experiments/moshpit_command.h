// `dedloc-lab moshpit`: the table of Moshpit SGD's averaging experiment (group_averaging.h),
// measured here, beside what was published: rounds until the variance is below 1e-9 (below 1e-4).
//
// Exit status: 0; 9 if a figure is further from the published one than ten seeds allow, or if a
// full grid is not exact after two rounds. Time: a second.

#pragma once

namespace dedloc::lab {

struct MoshpitCommand {
    int seeds = 10;
    bool json = false;
};

int run_moshpit(const MoshpitCommand& command);

}  // namespace dedloc::lab
