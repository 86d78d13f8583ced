// Peers of a plan that are alike, so that a table or a drawing can show them once.
//
// Thread: any; pure.

#pragma once
#include <string>
#include <vector>

#include "dedloc/planning/plan_file.h"

namespace dedloc::planning {

// Peers of one section of the file with the same roles and, within one element, the same part.
struct PeerClass {
    std::string label{};               // "slow ×16"
    std::vector<std::size_t> peers{};  // in the order of the file
    double contributors = 0;
    double receivers = 0;
    double part_elements = 0;  // of all of them together
    double busy_up = 0;        // the part of the round that the upload of the busiest is full
    double busy_down = 0;
    bool rest = false;  // different ones, beyond the limit
};

// In the order of the file. If there are more than classes_max, those with the smallest parts are
// the last one, together.
std::vector<PeerClass> peer_classes(const PlanFile& file,
                                    const planner::LoadPlan& plan,
                                    std::size_t classes_max);

// Every peer a class of its own; for at most classes_max peers.
std::vector<PeerClass> single_peers(const PlanFile& file, const planner::LoadPlan& plan);

std::string bytes_text(double bytes);  // "6.39 MB"
std::string percent_text(double fraction);
// A peer's role in this plan: "trainer", "aggregator", "spared" (a trainer that does not compute).
std::string_view role_text(const PlanFile& file, const planner::LoadPlan& plan, std::size_t peer);

}  // namespace dedloc::planning
