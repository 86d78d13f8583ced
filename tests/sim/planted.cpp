#include "tests/sim/planted.h"

namespace dedloc::lab {
namespace {

using consensus::PlantedBugs;

struct Named {
    const char* name;
    bool PlantedBugs::*flag;
};

constexpr Named planted_bugs[] = {
    {"forget_votes", &PlantedBugs::forget_votes},
    {"ignore_promises", &PlantedBugs::ignore_promises},
    {"skip_prepare", &PlantedBugs::skip_prepare},
    {"minority_commits", &PlantedBugs::minority_commits},
    {"count_twice", &PlantedBugs::count_twice},
    {"sum_by_arrival", &PlantedBugs::sum_by_arrival},
    {"lose_unsent", &PlantedBugs::lose_unsent},
    {"lose_left_out", &PlantedBugs::lose_left_out},
    {"stale_overlap", &PlantedBugs::stale_overlap},
    {"vote_without_memory", &PlantedBugs::vote_without_memory},
    {"early_draw", &PlantedBugs::early_draw},
    {"rows_unchecked", &PlantedBugs::rows_unchecked},
    {"orders_unproved", &PlantedBugs::orders_unproved},
    {"loose_tolerance", &PlantedBugs::loose_tolerance},
    {"minimum_unchecked", &PlantedBugs::minimum_unchecked},
    {"step_unbounded", &PlantedBugs::step_unbounded},
};

}  // namespace

std::vector<std::string> planted_names() {
    std::vector<std::string> names;
    for (const Named& each : planted_bugs) names.emplace_back(each.name);
    return names;
}

std::optional<PlantedBugs> planted_bug(std::string_view name) {
    for (const Named& each : planted_bugs) {
        if (name != each.name) continue;
        PlantedBugs bugs;
        bugs.*each.flag = true;
        return bugs;
    }
    return std::nullopt;
}

}  // namespace dedloc::lab
