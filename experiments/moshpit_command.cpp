#include "experiments/moshpit_command.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "dedloc/monitor/json_line.h"

#include "experiments/group_averaging.h"
#include "tests/common/exit_codes.h"

namespace dedloc::lab {
namespace {

// Ten seeds of either side, and a matrix of theirs that was rolled as one row (SGP).
constexpr double groups_tolerance = 0.8;  // rounds
constexpr double sgp_tolerance = 0.1;     // of the published figure
constexpr double standard_errors = 3;     // all-reduce
constexpr int published_seeds = 10;

struct PublishedRow {
    std::size_t peers;
    double absence;
    std::map<GroupStrategy, RoundsNeeded> published;
};

PublishedRow row_of(std::size_t peers,
                    double absence,
                    double all_reduce,
                    RoundsNeeded sgp,
                    RoundsNeeded random,
                    RoundsNeeded moshpit) {
    // Whoever averages with all is done at once, and gossip never is.
    const auto never = static_cast<double>(GroupAveraging{}.rounds_max);
    return {peers,
            absence,
            {{GroupStrategy::all_reduce, {all_reduce, all_reduce}},
             {GroupStrategy::gossip, {never, never}},
             {GroupStrategy::sgp, sgp},
             {GroupStrategy::random, random},
             {GroupStrategy::moshpit, moshpit}}};
}

// The figures that moshpit-sgd's averaging_experiments/plot_results.ipynb printed, and a full grid,
// which is exact after a round along each axis.
std::vector<PublishedRow> published_rows() {
    return {
        row_of(512, 0.0, 1.0, {15.6, 47.6}, {3.0, 6.1}, {3.6, 8.2}),
        row_of(512, 0.001, 1.6, {15.6, 47.6}, {3.0, 6.3}, {3.3, 8.5}),
        row_of(512, 0.005, 10.9, {15.6, 47.8}, {3.0, 6.3}, {3.9, 8.8}),
        row_of(512, 0.01, 41.7, {15.6, 47.8}, {3.0, 6.6}, {3.9, 8.8}),
        row_of(768, 0.0, 1.0, {13.8, 43.2}, {3.0, 6.2}, {3.0, 6.0}),
        row_of(768, 0.001, 1.8, {13.8, 43.2}, {3.0, 6.5}, {3.0, 6.0}),
        row_of(768, 0.005, 28.7, {14.1, 43.2}, {3.0, 6.6}, {3.0, 6.6}),
        row_of(768, 0.01, 50.0, {14.2, 43.9}, {3.0, 7.0}, {3.0, 6.9}),
        row_of(900, 0.0, 1.0, {14.7, 45.0}, {3.0, 6.4}, {2.9, 5.0}),
        row_of(900, 0.001, 1.8, {14.7, 45.0}, {3.0, 6.3}, {2.9, 5.1}),
        row_of(900, 0.005, 50.0, {14.7, 45.2}, {3.0, 6.7}, {3.1, 5.9}),
        row_of(900, 0.01, 50.0, {14.9, 45.6}, {3.1, 7.0}, {3.0, 6.5}),
        {1024, 0.0, {{GroupStrategy::moshpit, {2.0, 2.0}}}},
    };
}

// The standard deviation of the first round in which nobody is absent; the last round if none is.
double whole_round_deviation(const PublishedRow& row) {
    const double whole = std::pow(1 - row.absence, static_cast<double>(row.peers));
    const int last = GroupAveraging{}.rounds_max;
    double mean = 0;
    double square = 0;
    double not_yet = 1;  // the probability of it
    for (int round = 1; round <= last; ++round) {
        const double now = round == last ? not_yet : not_yet * whole;
        mean += now * round;
        square += now * round * round;
        not_yet -= now;
    }
    return std::sqrt(std::max(0.0, square - mean * mean));
}

double tolerance_of(GroupStrategy strategy, const PublishedRow& row, double published, int seeds) {
    switch (strategy) {
        case GroupStrategy::all_reduce:
            // Luck decides: of two means of so many seeds, the difference.
            return standard_errors * whole_round_deviation(row) *
                   std::sqrt(1.0 / published_seeds + 1.0 / seeds);
        case GroupStrategy::gossip:
            return 0;
        case GroupStrategy::sgp:
            return sgp_tolerance * published;
        case GroupStrategy::random:
        case GroupStrategy::moshpit:
            return groups_tolerance;
    }
    return 0;
}

// One cell of the table: what is printed of it, and whether it agrees with what was published.
struct TableEntry {
    std::string text;
    nlohmann::json json;
    bool agrees = true;
};

nlohmann::json json_of(const RoundsNeeded& rounds) {
    return {{"fine", rounds.fine}, {"coarse", rounds.coarse}};
}

TableEntry measure_entry(GroupStrategy strategy, const PublishedRow& row, int seeds) {
    const RoundsNeeded measured =
        mean_rounds({.strategy = strategy, .peers = row.peers, .absence = row.absence}, seeds);
    TableEntry cell;
    cell.text = fmt::format("{:.1f} ({:.1f})", measured.fine, measured.coarse);
    cell.json = json_of(measured);
    const auto found = row.published.find(strategy);
    if (found == row.published.end()) return cell;
    const RoundsNeeded& published = found->second;
    const auto near = [&](double ours, double theirs) {
        return std::abs(ours - theirs) <= tolerance_of(strategy, row, theirs, seeds);
    };
    cell.agrees = near(measured.fine, published.fine) && near(measured.coarse, published.coarse);
    cell.text += fmt::format(
        " [{:.1f} ({:.1f})]{}", published.fine, published.coarse, cell.agrees ? "" : " !");
    cell.json["published"] = json_of(published);
    cell.json["agrees"] = cell.agrees;
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
            line[std::string(to_string(strategy))] = cell.json;
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
