#include "dedloc/planner/split.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "dedloc/planner/explanation.h"
#include "dedloc/planner/optimum.h"

namespace dedloc::planner {
namespace {

std::string name_of(std::size_t peer, const SplitOptions& options) {
    return options.names.empty() ? fmt::format("peer {}", peer) : options.names[peer];
}

Ok check_links(std::span<const PeerRates> peers, const SplitOptions& options) {
    if (options.links.size() > links_max)
        return make_error(ErrorKind::bad_input,
                          "{} limits of links are too many for a plan, {} at most",
                          options.links.size(),
                          links_max);
    for (const LinkLimit& link : options.links) {
        if (link.from >= peers.size() || link.to >= peers.size() || link.from == link.to)
            return make_error(ErrorKind::bad_input,
                              "there is no link from peer {} to peer {} in a plan of {} peers",
                              link.from,
                              link.to,
                              peers.size());
        if (!std::isfinite(link.per_s) || link.per_s < 0)
            return make_error(ErrorKind::bad_input,
                              "the link from {} to {} has the rate {}",
                              name_of(link.from, options),
                              name_of(link.to, options),
                              link.per_s);
    }
    return {};
}

// Why no total rate above zero is possible.
Error why_impossible(std::span<const PeerRates> peers, const SplitOptions& options) {
    for (std::size_t i = 0; i < peers.size(); ++i) {
        if (peers[i].contributes && peers[i].upload_per_s <= 0)
            return make_error(
                ErrorKind::bad_input, "{} contributes but cannot send", name_of(i, options));
        if (peers[i].receives && peers[i].download_per_s <= 0)
            return make_error(
                ErrorKind::bad_input, "{} receives but cannot download", name_of(i, options));
    }
    for (const LinkLimit& link : options.links) {
        const bool needed = (peers[link.from].contributes && peers[link.to].owns_allowed) ||
                            (peers[link.to].receives && peers[link.from].owns_allowed);
        if (link.per_s <= 0 && needed)
            return make_error(ErrorKind::bad_input,
                              "no peer that may own parts of the plan has upload and download and "
                              "reaches everybody: {} cannot reach {}, for example",
                              name_of(link.from, options),
                              name_of(link.to, options));
    }
    return make_error(ErrorKind::bad_input,
                      "no peer that may own parts of the plan has both upload and download");
}

struct Finish {
    double seconds = 0;
    Bottleneck bottleneck = Bottleneck::none;
    std::size_t peer = 0;
    std::size_t to = 0;
};

Finish finish_of(std::span<const PeerRates> peers,
                 std::span<const std::uint64_t> part_elements,
                 std::span<const LinkLimit> links) {
    Finish finish;
    const auto consider = [&](double elements, double rate, const Finish& what) {
        const double seconds = elements > 0 ? elements / rate : 0;
        if (seconds > finish.seconds) finish = {seconds, what.bottleneck, what.peer, what.to};
    };
    const std::vector<Traffic> all = traffic(peers, part_elements);
    for (std::size_t i = 0; i < peers.size(); ++i) {
        consider(all[i].sent_elements, peers[i].upload_per_s, {0, Bottleneck::upload, i, 0});
        consider(
            all[i].received_elements, peers[i].download_per_s, {0, Bottleneck::download, i, 0});
    }
    for (const LinkLimit& link : links) {
        const Transfer sent = transfer(peers, part_elements, link.from, link.to);
        consider(static_cast<double>(sent.gradient_elements + sent.average_elements),
                 link.per_s,
                 {0, Bottleneck::link, link.from, link.to});
    }
    return finish;
}

// Forbids some owners whose parts are below the minimum: half of them, the smallest first, but
// as many as must go because the vector is too short for all. False when none is too small.
bool drop_small_owners(std::span<const std::uint64_t> part_elements,
                       std::uint64_t part_elements_min,
                       OwnerLimits& owners) {
    std::vector<std::size_t> small;
    std::size_t owners_count = 0;
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < part_elements.size(); ++i) {
        total += part_elements[i];
        if (part_elements[i] > 0) ++owners_count;
        if (part_elements[i] == 0) {
            owners[i] = 0;
        } else if (part_elements[i] < part_elements_min) {
            small.push_back(i);
        }
    }
    if (small.empty() || owners_count <= 1) return false;
    std::stable_sort(small.begin(), small.end(), [&](std::size_t a, std::size_t b) {
        return part_elements[a] != part_elements[b] ? part_elements[a] < part_elements[b] : a > b;
    });
    const auto room = static_cast<std::size_t>(
        std::max<std::uint64_t>(1, std::min<std::uint64_t>(total / part_elements_min, peers_max)));
    const std::size_t too_many = owners_count > room ? owners_count - room : 0;
    const std::size_t dropped =
        std::min({std::max((small.size() + 1) / 2, too_many), small.size(), owners_count - 1});
    for (std::size_t i = 0; i < dropped; ++i) owners[small[i]] = 0;
    return true;
}

}  // namespace

Ok check_network(std::span<const PeerRates> peers,
                 std::uint64_t elements_count,
                 const SplitOptions& options) {
    if (peers.empty() || peers.size() > peers_max)
        return make_error(ErrorKind::bad_input,
                          "a plan needs 1 to {} peers, there are {}",
                          peers_max,
                          peers.size());
    if (elements_count > elements_max)
        return make_error(
            ErrorKind::bad_input, "{} elements are too many for a plan", elements_count);
    DEDLOC_CHECK(options.names.empty() || options.names.size() == peers.size());
    bool any_contributor = false;
    bool any_owner = false;
    for (std::size_t i = 0; i < peers.size(); ++i) {
        const PeerRates& peer = peers[i];
        for (const double rate : {peer.upload_per_s, peer.download_per_s})
            if (!std::isfinite(rate) || rate < 0)
                return make_error(
                    ErrorKind::bad_input, "{} has the rate {}", name_of(i, options), rate);
        any_contributor = any_contributor || peer.contributes;
        any_owner = any_owner || peer.owns_allowed;
    }
    if (!any_contributor)
        return make_error(ErrorKind::bad_input, "no peer of the plan contributes a gradient");
    if (!any_owner)
        return make_error(ErrorKind::bad_input,
                          "no peer of the plan may own a part: nobody can be dialled");
    return check_links(peers, options);
}

std::vector<std::uint64_t> apportion(std::span<const double> shares, std::uint64_t total) {
    double sum = 0;
    for (const double share : shares) sum += share;
    DEDLOC_CHECK(sum > 0 && std::isfinite(sum) && total <= elements_max);
    std::vector<std::uint64_t> parts(shares.size());
    std::vector<double> remainders(shares.size());
    std::uint64_t given = 0;
    for (std::size_t i = 0; i < shares.size(); ++i) {
        const double quota = shares[i] / sum * static_cast<double>(total);
        const double whole = std::floor(quota);
        parts[i] = std::min(static_cast<std::uint64_t>(whole), total - given);
        // A peer without a share must not get a leftover element.
        remainders[i] = shares[i] > 0 ? quota - whole : -1;
        given += parts[i];
    }
    std::uint64_t left = total - given;
    std::vector<std::size_t> order(shares.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    // Only who gets one of those left matters, not their order.
    if (left < order.size())
        std::nth_element(order.begin(),
                         order.begin() + static_cast<std::ptrdiff_t>(left),
                         order.end(),
                         [&](std::size_t a, std::size_t b) {
                             return remainders[a] != remainders[b] ? remainders[a] > remainders[b]
                                                                   : a < b;
                         });
    for (std::size_t turn = 0; left > 0; turn = (turn + 1) % order.size()) {
        if (shares[order[turn]] <= 0) continue;
        ++parts[order[turn]];
        --left;
    }
    return parts;
}

double predicted_seconds(std::span<const PeerRates> peers,
                         std::span<const std::uint64_t> part_elements,
                         std::span<const LinkLimit> links) {
    DEDLOC_CHECK(peers.size() == part_elements.size());
    return finish_of(peers, part_elements, links).seconds;
}

std::size_t contributors_in(std::span<const PeerRates> peers) {
    return static_cast<std::size_t>(std::ranges::count_if(peers, &PeerRates::contributes));
}

void expect_averages(std::span<PeerRates> peers, double average_cost, bool owners_add) {
    for (PeerRates& peer : peers) {
        peer.average_cost = average_cost;
        peer.owns_allowed = peer.owns_allowed && (!owners_add || peer.contributes);
    }
}

Transfer transfer(std::span<const PeerRates> peers,
                  std::span<const std::uint64_t> part_elements,
                  std::size_t from,
                  std::size_t to) {
    if (from == to) return {};
    const double average = peers[to].receiving() * static_cast<double>(part_elements[from]);
    return {.gradient_elements = peers[from].contributes ? part_elements[to] : 0,
            .average_elements = static_cast<std::uint64_t>(std::llround(average))};
}

std::vector<Traffic> traffic(std::span<const PeerRates> peers,
                             std::span<const std::uint64_t> part_elements) {
    const Counts counts = count(peers);
    double total = 0;
    for (const std::uint64_t part : part_elements) total += static_cast<double>(part);
    std::vector<Traffic> all;
    all.reserve(peers.size());
    for (std::size_t i = 0; i < peers.size(); ++i) {
        const auto part = static_cast<double>(part_elements[i]);
        const double c = peers[i].contributing();
        const double r = peers[i].receiving();
        all.push_back({.sent_elements = c * (total - part) + (counts.receivers - r) * part,
                       .received_elements = r * (total - part) + (counts.contributors - c) * part});
    }
    return all;
}

Result<Split> split_elements(std::span<const PeerRates> peers,
                             std::uint64_t elements_count,
                             const SplitOptions& options) {
    DEDLOC_TRY_VOID(check_network(peers, elements_count, options));
    Split split;
    if (const std::size_t only = lonely_peer(peers, count(peers)); only < peers.size()) {
        split.part_elements.assign(peers.size(), 0);
        split.part_elements[only] = elements_count;
        split.explanation = explain(split, peers, options);
        return split;
    }
    OwnerLimits owners = allowed_owners(peers);
    std::vector<std::uint64_t> wanted_parts;  // before small ones go
    do {
        Optimum optimum;
        if (options.links.empty()) {
            optimum = optimum_without_links(peers, owners);
        } else {
            DEDLOC_TRY(optimum, optimum_with_links(peers, owners, options.links));
        }
        const double total = optimum.total_per_s;
        if (total <= 0 && !split.part_elements.empty()) break;  // no fewer owners can do it
        if (total <= 0) return why_impossible(peers, options);
        split.part_elements = apportion(optimum.owner_per_s, elements_count);
        if (wanted_parts.empty()) wanted_parts = split.part_elements;
    } while (options.part_elements_min > 0 &&
             drop_small_owners(split.part_elements, options.part_elements_min, owners));
    const Finish finish = finish_of(peers, split.part_elements, options.links);
    split.seconds = finish.seconds;
    split.bottleneck = finish.bottleneck;
    split.bottleneck_peer = finish.peer;
    split.bottleneck_to = finish.to;
    split.explanation = explain(split, peers, options, wanted_parts);
    return split;
}

}  // namespace dedloc::planner
