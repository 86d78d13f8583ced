// More peers than a group holds: a grid of groups, whose average is that of all, exactly.
//
// Peers are dealt into groups, and of each group the same number of peers stands in the columns,
// one of each group a column. A column has a range of the vector, and each of its peers owns a
// piece of that. First axis: within a group everybody sends the range of a column to the peer of
// its group that stands there, which adds. Second axis: these sums, one a group, go to the owners
// in the column, who average and send back; the average comes to everybody by the same way. So a
// peer speaks with its group and its column instead of with everybody, and moves hardly more bytes.
// With s columns and G groups of contributors, of a vector of S:
//     upload     (S - S/s) + (members - 1) S/s + sums_cost (S/s - S/sG) + (G - 1) S/sG
//
// Peers of a column should be equally fast, as its slowest one decides: they are ranked and dealt
// in that order. How much of the vector a column has is the planner's usual split (split.h) of one
// group in which each peer is as fast as the slowest of its column.
//
// Pure; deterministic. Cost: a sort and one split. Thread: any.
// Source: docs/decisions/0008; the axes are those of Moshpit SGD, arXiv:2103.03239, section 3.1,
//         where the average is exact only for whole grids that nobody leaves meanwhile.

#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "dedloc/planner/split.h"

namespace dedloc::planner {

struct GridOptions {
    std::size_t group_max = 64;  // peers of a group
    std::uint64_t part_elements_min = 0;
    // An element of a sum costs this on the wire, in elements of the vector: sums travel as fp32.
    double sums_cost = 1;
};

struct Grid {
    std::uint32_t groups = 0;
    std::vector<std::uint32_t> group_of;       // one a peer
    std::vector<std::uint32_t> collectors;     // peers: column k's of group g at [k * groups + g]
    std::vector<std::uint64_t> part_elements;  // that a peer owns; they sum to the vector's size
    double seconds = 0;                        // predicted
};

// As few groups as group_max allows. Errors: those of split_elements; bad_input if fewer peers may
// own parts than there are groups.
Result<Grid> make_grid(std::span<const PeerRates> peers,
                       std::uint64_t elements_count,
                       const GridOptions& options);

// Elements of the vector that each peer sends and receives in all.
std::vector<Traffic> traffic(std::span<const PeerRates> peers, const Grid& grid, double sums_cost);

}  // namespace dedloc::planner
