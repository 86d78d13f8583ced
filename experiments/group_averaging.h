// How fast peers that average in groups agree, if some are absent in each round: the experiment of
// Moshpit SGD (arXiv 2103.03239), of which `dedloc-lab moshpit` prints the table. Numbers only: no
// network, no protocol.
//
// Each of `peers` holds one number of N(0, 1). In each round each is absent with probability
// `absence`, and then neither gives nor receives:
//
//   all_reduce  all average, if nobody is absent
//   gossip      each takes the mean of itself and its two neighbours on a ring
//   sgp         each takes the mean of itself and the peers 2^h and 2^(h+1) further, where h goes
//               round in floor(log2(peers - 1)) values
//   random      those present are dealt into floor(present / side) groups of at least `side`
//   moshpit     peers have a cell each of a grid of side × side; in odd rounds those in the same
//               row average, in even ones those in the same column
//
// Thread: any; pure. Cost: O(peers) a round.

#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace dedloc::lab {

enum class GroupStrategy { all_reduce, gossip, sgp, random, moshpit };
inline constexpr std::array group_strategies = {GroupStrategy::all_reduce,
                                                GroupStrategy::gossip,
                                                GroupStrategy::sgp,
                                                GroupStrategy::random,
                                                GroupStrategy::moshpit};
std::string_view to_string(GroupStrategy strategy);

struct GroupAveraging {
    GroupStrategy strategy = GroupStrategy::moshpit;
    std::size_t peers = 512;
    std::size_t side = 32;  // peers ≤ side²
    double absence = 0;
    int rounds_max = 50;
};

// Rounds until the numbers' variance is below 1e-4, below 1e-9; rounds_max if it never is.
struct RoundsNeeded {
    double coarse = 0;
    double fine = 0;
};
RoundsNeeded average_in_groups(const GroupAveraging& experiment, std::uint64_t seed);
// The mean over seeds 0, 1, … .
RoundsNeeded mean_rounds(const GroupAveraging& experiment, int seeds);

}  // namespace dedloc::lab
