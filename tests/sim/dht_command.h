// `dedloc-lab dht`: the table in virtual time.
//
//   dedloc-lab dht --nodes 10000    how often gets return the last value after a tenth of the nodes
//                                   has died, hops at 100, 1,000, …, and a hostile node's floods
//   dedloc-lab dht --start 64 --repeat 50   nodes that start at once always find into one table
//
// Exit status: 0; 9 if a figure misses its bound.

#pragma once
#include <cstddef>
#include <cstdint>

namespace dedloc::lab {

struct DhtCommand {
    std::size_t nodes = 1000;
    std::size_t start = 0;  // 0: the other figure
    std::size_t repeat = 50;
    std::uint64_t seed = 1;
    bool json = false;
};

int run_dht(const DhtCommand& command);

}  // namespace dedloc::lab
