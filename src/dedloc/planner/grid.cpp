#include "dedloc/planner/grid.h"

#include <algorithm>
#include <numeric>

#include "dedloc/planner/optimum.h"

namespace dedloc::planner {
namespace {

constexpr std::uint32_t no_column = ~std::uint32_t{0};

double slower_way(const PeerRates& peer) {
    return std::min(peer.upload_per_s, peer.download_per_s);
}

// Peers that may own first, the fastest of them first.
std::vector<std::uint32_t> ranked(std::span<const PeerRates> peers) {
    std::vector<std::uint32_t> order(peers.size());
    std::iota(order.begin(), order.end(), std::uint32_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
        if (peers[a].owns_allowed != peers[b].owns_allowed) return peers[a].owns_allowed;
        return slower_way(peers[a]) > slower_way(peers[b]);
    });
    return order;
}

// One group that stands for all: a peer for each column, as fast as the slowest there, and as many
// that own nothing as the largest group has beside its columns, as slow as the slowest of them.
std::vector<PeerRates> typical_group(std::span<const PeerRates> peers,
                                     std::span<const std::uint32_t> order,
                                     std::size_t groups,
                                     std::size_t columns) {
    std::vector<PeerRates> group;
    const auto slowest = [&](std::size_t first, std::size_t end) {
        PeerRates rates = peers[order[first]];
        rates.contributes = rates.receives = true;
        for (std::size_t i = first; i < end; ++i) {
            rates.upload_per_s = std::min(rates.upload_per_s, peers[order[i]].upload_per_s);
            rates.download_per_s = std::min(rates.download_per_s, peers[order[i]].download_per_s);
        }
        return rates;
    };
    for (std::size_t k = 0; k < columns; ++k)
        group.push_back(slowest(k * groups, (k + 1) * groups));
    const std::size_t first = columns * groups;
    if (first == order.size()) return group;
    PeerRates rest = slowest(first, order.size());
    rest.owns_allowed = false;
    group.resize(columns + (order.size() - first + groups - 1) / groups, rest);
    return group;
}

}  // namespace

std::vector<Traffic> traffic(std::span<const PeerRates> peers, const Grid& grid, double sums_cost) {
    std::vector<std::uint32_t> column_of(peers.size(), no_column);
    std::vector<double> column_elements(grid.collectors.size() / grid.groups, 0.0);
    for (std::size_t i = 0; i < grid.collectors.size(); ++i) {
        const std::uint32_t peer = grid.collectors[i];
        column_of[peer] = static_cast<std::uint32_t>(i / grid.groups);
        column_elements[i / grid.groups] += static_cast<double>(grid.part_elements[peer]);
    }
    std::vector<double> contributors(grid.groups, 0.0);
    std::vector<double> receivers(grid.groups, 0.0);
    for (std::size_t i = 0; i < peers.size(); ++i) {
        contributors[grid.group_of[i]] += peers[i].contributes ? 1 : 0;
        receivers[grid.group_of[i]] += peers[i].receives ? 1 : 0;
    }
    const double all = std::accumulate(column_elements.begin(), column_elements.end(), 0.0);
    const double other_groups = grid.groups - 1;
    std::vector<Traffic> result;
    for (std::size_t i = 0; i < peers.size(); ++i) {
        const double c = peers[i].contributes ? 1 : 0;
        const double r = peers[i].receives ? 1 : 0;
        const auto own = static_cast<double>(grid.part_elements[i]);
        const double range = column_of[i] == no_column ? 0 : column_elements[column_of[i]];
        result.push_back(
            {.sent_elements = c * (all - range) + (receivers[grid.group_of[i]] - r) * range +
                              sums_cost * (range - own) + other_groups * own,
             .received_elements = r * (all - range) + (contributors[grid.group_of[i]] - c) * range +
                                  sums_cost * other_groups * own + (range - own)});
    }
    return result;
}

Result<Grid> make_grid(std::span<const PeerRates> peers,
                       std::uint64_t elements_count,
                       const GridOptions& options) {
    DEDLOC_TRY_VOID(check_network(peers, elements_count, SplitOptions{}));
    const std::size_t groups = (peers.size() + options.group_max - 1) / options.group_max;
    const std::vector<std::uint32_t> order = ranked(peers);
    const auto owners = static_cast<std::size_t>(
        std::ranges::count_if(peers, [](const PeerRates& peer) { return peer.owns_allowed; }));
    const std::size_t columns = owners / groups;
    if (columns == 0)
        return make_error(ErrorKind::bad_input,
                          "{} groups need as many peers that may own parts, there are {}",
                          groups,
                          owners);
    SplitOptions split_options;
    split_options.part_elements_min = options.part_elements_min * groups;
    DEDLOC_TRY(const Split split,
               split_elements(
                   typical_group(peers, order, groups, columns), elements_count, split_options));
    Grid grid;
    grid.groups = static_cast<std::uint32_t>(groups);
    grid.group_of.resize(peers.size());
    grid.part_elements.assign(peers.size(), 0);
    for (std::size_t i = 0; i < order.size(); ++i)
        grid.group_of[order[i]] = static_cast<std::uint32_t>(i % groups);
    for (std::size_t k = 0; k < columns; ++k) {
        const std::uint64_t range = split.part_elements[k];
        if (range == 0) continue;
        for (std::size_t g = 0; g < groups; ++g) {
            const std::uint32_t peer = order[k * groups + g];
            grid.collectors.push_back(peer);
            grid.part_elements[peer] = range * (g + 1) / groups - range * g / groups;
        }
    }
    const std::vector<Traffic> moved = traffic(peers, grid, options.sums_cost);
    for (std::size_t i = 0; i < peers.size(); ++i)
        grid.seconds = std::max({grid.seconds,
                                 moved[i].sent_elements / peers[i].upload_per_s,
                                 moved[i].received_elements / peers[i].download_per_s});
    return grid;
}

}  // namespace dedloc::planner
