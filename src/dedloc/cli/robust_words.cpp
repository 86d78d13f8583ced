#include "dedloc/cli/robust_words.h"

#include <algorithm>

#include "dedloc/robust/rows.h"

namespace dedloc::cli {
namespace {

// A signed commitment, a nonce and an answer's frame, each once to the leader and once to all.
constexpr double bytes_of_a_member = 600;

}  // namespace

std::string robust_section() {
    const run::RobustConfig usual;
    return fmt::format(
        "\n"
        "# Members that do not trust each other, or may err (docs/robust-runs.md): poisoned\n"
        "# gradients are clipped, contributions are computed again by others, and whoever "
        "computes\n"
        "# something else is told, then kept out.\n"
        "[robust]\n"
        "reducer = \"{}\"\n"
        "tau = \"auto\"             # how far an honest contribution may be from the average;\n"
        "                         # auto: as the run measures it\n"
        "iterations_max = {}\n"
        "eps = {:g}              # of tau: shorter steps end the iterations\n"
        "weight_cap = {:.1f}         # no contribution weighs more than so many median ones\n"
        "check = {:g}           # of all contributions are computed again; 0: none\n"
        "tolerance = {:.1f}          # of such a gradient, relative; 0: 0.002, of bf16 0.02\n"
        "probation = {}            # right contributions before a new key weighs anything\n"
        "trust_after = {}         # steps until it weighs as much as others, checked in each\n"
        "quorum = \"{}\"     # two thirds of the votes, against voters that lie; or \"majority\"\n",
        usual.reducer,
        usual.iterations_max,
        usual.eps,
        usual.weight_cap,
        usual.check,
        usual.tolerance,
        usual.probation,
        usual.trust_after,
        usual.quorum);
}

RobustForecast forecast_robust(const run::RobustConfig& robust,
                               std::size_t peers,
                               double vector_bytes) {
    RobustForecast forecast;
    const auto count = static_cast<double>(peers);
    forecast.checks_share = robust.check;
    forecast.inputs_bytes = vector_bytes;
    forecast.extra_bytes =
        2 * count * (bytes_of_a_member + count * static_cast<double>(robust::row_bytes));
    forecast.liars_max = peers > 0 ? (peers - 1) / 2 : 0;
    forecast.voters_max = robust.quorum == "byzantine" && peers > 0 ? (peers - 1) / 3 : 0;
    return forecast;
}

std::vector<std::string> robust_lines(const run::RunFile& run,
                                      std::size_t peers,
                                      double vector_bytes) {
    if (!run.robust) return {};
    const RobustForecast of = forecast_robust(*run.robust, peers, vector_bytes);
    return {fmt::format("{:.1f} % more gradients, as others' are computed again; an owner keeps "
                        "{:.1f} MB of contributions until the step is certified; {:.0f} kB more "
                        "travel in a round",
                        100 * of.checks_share,
                        of.inputs_bytes / 1e6,
                        of.extra_bytes / 1e3),
            fmt::format("of {} peers {} may send poison and {} may lie when they vote; a new key "
                        "weighs nothing before {} right contributions, and little in the {} steps "
                        "after them, in all of which it is checked",
                        peers,
                        of.liars_max,
                        of.voters_max,
                        run.robust->probation,
                        run.robust->trust_after)};
}

std::string robust_problem(const run::RunFile& run, std::size_t peers) {
    if (!run.robust || peers <= run.averaging.group_max) return {};
    return fmt::format(
        "[robust] with a grid: {} peers are more than 'averaging.group_max' ({}) "
        "and would average in groups, where nobody sees all the contributions to a "
        "part; raise group_max (at most 256), or take fewer peers",
        peers,
        run.averaging.group_max);
}

}  // namespace dedloc::cli
