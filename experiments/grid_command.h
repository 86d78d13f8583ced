// `dedloc-lab grid`: what a grid costs: a collaboration in virtual time whose trainers average in
// one group of all, and in groups of at most so many. Lines such that the vector, as encoded, takes
// a second each way.
//
// Exit status: 0; 9 if replicas differ or samples get lost; 6 if a run fails. Time: seconds for 16
// peers, a minute for 64, as everybody is told of everybody.

#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace dedloc::lab {

struct GridCommand {
    std::size_t peers = 32;
    std::vector<std::size_t> group_max;  // besides all; empty: 8 and 4
    std::uint64_t steps = 6;
    bool json = false;
};

int run_grid(const GridCommand& command);

}  // namespace dedloc::lab
