#include "lab/moshpit_command.h"

#include <cmath>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "dedloc/monitor/json_line.h"

#include "lab/exit_codes.h"
#include "lab/group_averaging.h"

namespace dedloc::lab {
namespace {

// Ten seeds of either side, and a matrix of theirs that was rolled as one row (SGP).
constexpr double groups_tolerance = 0.8;  // rounds
constexpr double sgp_tolerance = 0.1;     // of the published figure

struct PublishedRow {
    std::size_t peers;
    double absence;
    std::map<GroupStrategy, RoundsNeeded> published;
};

// From moshpit-sgd's averaging_experiments/plot_results.ipynb.
std::vector<PublishedRow> published_rows() {
    using enum GroupStrategy;
    return {
        {512, 0.0, {{sgp, {15.6, 47.6}}, {random, {3.0, 6.1}}, {moshpit, {3.6, 8.2}}}},
        {512, 0.005, {{moshpit, {3.9, 8.8}}}},
        {512, 0.01, {{sgp, {15.6, 47.8}}, {random, {3.0, 6.6}}, {moshpit, {3.9, 8.8}}}},
        {768, 0.0, {{sgp, {13.8, 43.2}}, {random, {3.0, 6.2}}, {moshpit, {3.0, 6.0}}}},
        {768, 0.005, {{sgp, {14.1, 43.2}}, {random, {3.0, 6.6}}, {moshpit, {3.0, 6.6}}}},
        {900, 0.0, {{sgp, {14.7, 45.0}}, {random, {3.0, 6.4}}, {moshpit, {2.9, 5.0}}}},
        {900, 0.005, {{moshpit, {3.1, 5.9}}}},
        {900, 0.01, {{sgp, {14.9, 45.6}}, {random, {3.1, 7.0}}, {moshpit, {3.0, 6.5}}}},
        {1024, 0.0, {{moshpit, {2.0, 2.0}}}},
    };
}

bool agree(GroupStrategy strategy, double measured, double published) {
    const double tolerance =
        strategy == GroupStrategy::sgp ? sgp_tolerance * published : groups_tolerance;
    return std::abs(measured - published) <= tolerance;
}

bool agree(GroupStrategy strategy, const RoundsNeeded& measured, const RoundsNeeded& published) {
    return agree(strategy, measured.fine, published.fine) &&
           agree(strategy, measured.coarse, published.coarse);
}

// One cell of the table: what is printed of it, and whether it agrees with what was published.
struct TableEntry {
    RoundsNeeded measured;
    std::string text;
    bool agrees = true;
};

TableEntry measure_entry(GroupStrategy strategy, const PublishedRow& row, int seeds) {
    TableEntry cell;
    cell.measured =
        mean_rounds({.strategy = strategy, .peers = row.peers, .absence = row.absence}, seeds);
    cell.text = fmt::format("{:.1f} ({:.1f})", cell.measured.fine, cell.measured.coarse);
    const auto found = row.published.find(strategy);
    if (found == row.published.end()) return cell;
    const RoundsNeeded& published = found->second;
    cell.agrees = agree(strategy, cell.measured, published);
    cell.text += fmt::format(
        " [{:.1f} ({:.1f})]{}", published.fine, published.coarse, cell.agrees ? "" : " !");
    return cell;
}

}  // namespace

int run_moshpit(const MoshpitCommand& command) {
    bool good = true;
    nlohmann::json table = nlohmann::json::array();
    fmt::print(
        "rounds until the variance is below 1e-9 (1e-4); published figures in brackets []\n");
    fmt::print("{:>5} {:>6}", "peers", "absent");
    for (const GroupStrategy strategy : group_strategies)
        fmt::print("  {:<25}", to_string(strategy));
    fmt::print("\n");
    for (const PublishedRow& row : published_rows()) {
        fmt::print("{:>5} {:>6}", row.peers, row.absence);
        nlohmann::json line = {{"peers", row.peers}, {"absence", row.absence}};
        for (const GroupStrategy strategy : group_strategies) {
            const TableEntry cell = measure_entry(strategy, row, command.seeds);
            good = good && cell.agrees;
            fmt::print("  {:<25}", cell.text);
            line[std::string(to_string(strategy))] = {{"fine", cell.measured.fine},
                                                      {"coarse", cell.measured.coarse}};
        }
        fmt::print("\n");
        table.push_back(std::move(line));
    }
    if (command.json) {
        const nlohmann::json result = {
            {"seeds", command.seeds}, {"agrees", good}, {"table", std::move(table)}};
        fmt::print("{}\n", monitor::json_line(result));
    }
    return good ? 0 : exit_check_failed;
}

}  // namespace dedloc::lab
