// The largest total rate X and the owners' rates m_i that reach it: the core of split.h, without
// integers, names and minimum parts. Input is checked already: check_network.
//
// Cost:   optimum_without_links: about 15 passes over the peers.
//         optimum_with_links: link_programme.cpp.
// Thread: any.

#pragma once
#include <limits>
#include <span>
#include <vector>

#include "dedloc/planner/split.h"

namespace dedloc::planner {

// Errors: those of bad_input in split.h that do not need a plan to be found.
Ok check_network(std::span<const PeerRates> peers,
                 std::uint64_t elements_count,
                 const SplitOptions& options);

struct Counts {
    double contributors = 0;  // C
    double receivers = 0;     // R, each by what its average costs
};
Counts count(std::span<const PeerRates> peers);

struct Optimum {
    double total_per_s = 0;           // X; 0: impossible
    std::vector<double> owner_per_s;  // m_i; they sum to X
};

// One number a peer: the largest m_i allowed. 0: owns nothing.
using OwnerLimits = std::vector<double>;
inline constexpr double unlimited = std::numeric_limits<double>::infinity();

// Exact: bisection, whose upper end Newton's method has brought near.
Optimum optimum_without_links(std::span<const PeerRates> peers, const OwnerLimits& limits);

// The dual simplex method. Owners that miss somebody get 0.
// Errors: local_fault (the solver gave up).
Result<Optimum> optimum_with_links(std::span<const PeerRates> peers,
                                   const OwnerLimits& limits,
                                   std::span<const LinkLimit> links);

// limits, lowered to what each owner's single links allow.
OwnerLimits limits_of_links(std::span<const PeerRates> peers,
                            OwnerLimits limits,
                            std::span<const LinkLimit> links);

// X of the whole network for these peers: 0 impossible, infinity when nothing has to travel.
Result<double> largest_total(std::span<const PeerRates> peers, std::span<const LinkLimit> links);

// The peer that is the only contributor and the only receiver, if it may own everything: then
// nothing travels and no rate matters. Otherwise peers.size().
std::size_t lonely_peer(std::span<const PeerRates> peers, const Counts& counts);

OwnerLimits allowed_owners(std::span<const PeerRates> peers);

}  // namespace dedloc::planner
