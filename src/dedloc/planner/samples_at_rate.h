// Finds who should contribute so that as many samples as possible are computed while X elements a
// second are averaged: the inner question of roles.h, for networks without limits of links.
//
// For X and a number C of contributors given, each peer's highest m_i depends on nothing but
// whether it contributes itself, so that contributing costs the group a known part of its capacity.
// It remains to choose C candidates with the most samples whose costs fit: a knapsack, solved
// by one price for capacity (its Lagrange multiplier). That is not always the best set, only a good
// one; the caller evaluates what it gets.
//
// Cost:   counts_max times about a dozen passes over the peers.
// Thread: any; pure.

#pragma once
#include <span>
#include <vector>

#include "dedloc/planner/split.h"

namespace dedloc::planner {

// For so many numbers of contributors the question is asked; of larger groups, for some only.
inline constexpr std::size_t contributor_counts_max = 64;

// peers: contributes = is a candidate. Empty: no set was found for that rate.
std::vector<bool> most_samples_at(std::span<const PeerRates> peers,
                                  std::span<const double> samples_per_s,
                                  double total_per_s);

}  // namespace dedloc::planner
