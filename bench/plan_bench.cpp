// plan_bench: how long the planner takes, for random peers of all kinds.
//
//   plan_bench [--quick]      prints one JSON object, seconds, the median of several calls:
//     plan_N_s        split_elements with minimum parts: what a plan of one group is made of
//     plan_N_full_s   make_plan: with what else was possible, advice and sentences
//     plan_256_links_s  split_elements with a limit for every single link
//     plan_256_grid_s   make_grid with groups of at most 64, as the leader of 256 calls it

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fmt/format.h>
#include <functional>

#include "dedloc/base/random.h"
#include "dedloc/planner/grid.h"
#include "dedloc/planner/plan.h"

namespace {

using namespace dedloc;

constexpr std::uint64_t elements_count = 25'557'032;  // ResNet-50
constexpr std::uint64_t part_elements_min = 65'536;

double median_seconds(int calls, const std::function<bool()>& call) {
    std::vector<double> seconds;
    for (int i = 0; i < calls; ++i) {
        const auto begin = std::chrono::steady_clock::now();
        const bool ok = call();
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
        DEDLOC_CHECK(ok);
        seconds.push_back(took.count());
    }
    std::nth_element(seconds.begin(), seconds.begin() + calls / 2, seconds.end());
    return seconds[static_cast<std::size_t>(calls / 2)];
}

planner::LoadQuestion random_network(std::size_t peers_count) {
    Random random(1);
    planner::LoadQuestion question{.elements_count = elements_count,
                                   .part_elements_min = part_elements_min};
    for (std::size_t i = 0; i < peers_count; ++i)
        question.peers.push_back({.name = fmt::format("peer-{}", i),
                                  .rates = {.upload_per_s = random.uniform(1e5, 1e8),
                                            .download_per_s = random.uniform(1e6, 1e8),
                                            .contributes = random.chance(0.9),
                                            .receives = random.chance(0.95),
                                            .owns_allowed = random.chance(0.7)}});
    return question;
}

struct Times {
    double split_s = 0;
    double full_s = 0;
};

std::vector<planner::PeerRates> rates_of(const planner::LoadQuestion& question) {
    std::vector<planner::PeerRates> peers;
    for (const planner::PlanPeer& peer : question.peers) peers.push_back(peer.rates);
    return peers;
}

Times time_plans(const planner::LoadQuestion& question, int calls) {
    const std::vector<planner::PeerRates> peers = rates_of(question);
    Times times;
    times.split_s = median_seconds(calls, [&] {
        return planner::split_elements(
                   peers, elements_count, {.part_elements_min = part_elements_min})
            .has_value();
    });
    times.full_s = median_seconds(calls, [&] { return planner::make_plan(question).has_value(); });
    return times;
}

double time_links(std::size_t peers_count, int calls) {
    Random random(2);
    const std::vector<planner::PeerRates> peers = rates_of(random_network(peers_count));
    std::vector<planner::LinkLimit> links;
    for (std::uint32_t from = 0; from < peers_count; ++from)
        for (std::uint32_t to = 0; to < peers_count; ++to)
            if (from != to) links.push_back({from, to, random.uniform(1e3, 1e6)});
    return median_seconds(calls, [&] {
        return planner::split_elements(peers, elements_count, {.links = links}).has_value();
    });
}

double time_grid(std::size_t peers_count, int calls) {
    const std::vector<planner::PeerRates> peers = rates_of(random_network(peers_count));
    const planner::GridOptions options{.part_elements_min = part_elements_min};
    return median_seconds(
        calls, [&] { return planner::make_grid(peers, elements_count, options).has_value(); });
}

}  // namespace

int main(int argc, char** argv) {
    CLI::App app("Times the planner.");
    bool quick = false;
    app.add_flag("--quick", quick, "few calls");
    CLI11_PARSE(app, argc, argv);
    const Times few = time_plans(random_network(256), quick ? 3 : 301);
    const Times many = time_plans(random_network(100'000), quick ? 1 : 11);
    const double links = time_links(256, quick ? 1 : 51);
    const double grid = time_grid(256, quick ? 3 : 301);
    fmt::print(
        "{{\"plan_256_s\": {:.9f}, \"plan_256_full_s\": {:.9f}, \"plan_256_links_s\": {:.9f}, "
        "\"plan_256_grid_s\": {:.9f}, \"plan_100000_s\": {:.9f}, "
        "\"plan_100000_full_s\": {:.9f}}}\n",
        few.split_s,
        few.full_s,
        links,
        grid,
        many.split_s,
        many.full_s);
}
