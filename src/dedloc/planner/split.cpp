#include "dedloc/planner/split.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dedloc::planner {
namespace {

struct Counts {
    double contributors = 0;  // C
    double receivers = 0;     // R
};

Counts count(std::span<const PeerRates> peers) {
    Counts counts;
    for (const PeerRates& peer : peers) {
        counts.contributors += peer.contributes ? 1 : 0;
        counts.receivers += peer.receives ? 1 : 0;
    }
    return counts;
}

// Lowest and highest m_i for a total rate X; empty when low > high.
struct Bounds {
    double low = 0;
    double high = 0;
};

// base * X + slope * m <= rate narrows the bounds of m.
void narrow(Bounds& bounds, double base, double slope, double rate, double total) {
    const double room = rate - base * total;
    if (slope > 0) {
        bounds.high = std::min(bounds.high, room / slope);
    } else if (slope < 0) {
        bounds.low = std::max(bounds.low, room / slope);
    } else if (room < 0) {
        bounds.high = -1;
    }
}

Bounds bounds_of(const PeerRates& peer, const Counts& counts, bool owner, double total) {
    const double c = peer.contributes ? 1 : 0;
    const double r = peer.receives ? 1 : 0;
    Bounds bounds{.low = 0, .high = owner ? total : 0};
    narrow(bounds, c, counts.receivers - r - c, peer.upload_per_s, total);
    narrow(bounds, r, counts.contributors - c - r, peer.download_per_s, total);
    return bounds;
}

bool feasible(std::span<const PeerRates> peers,
              const Counts& counts,
              const std::vector<bool>& owners,
              double total) {
    double lows = 0;
    double highs = 0;
    for (std::size_t i = 0; i < peers.size(); ++i) {
        const Bounds bounds = bounds_of(peers[i], counts, owners[i], total);
        if (bounds.low > bounds.high) return false;
        lows += bounds.low;
        highs += bounds.high;
    }
    return lows <= total && total <= highs;
}

// The largest feasible X. Every feasible point scales down, so feasibility has one edge.
double largest_total(std::span<const PeerRates> peers,
                     const Counts& counts,
                     const std::vector<bool>& owners) {
    // Everything that travels is somebody's download, and at least X elements a second travel.
    double high = 0;
    for (const PeerRates& peer : peers) high += peer.download_per_s;
    double low = 0;
    constexpr int halvings_max = 200;  // 53 bits of result, and an edge down to 2^-147 of `high`
    for (int i = 0; i < halvings_max; ++i) {
        const double middle = low + (high - low) / 2;
        if (middle <= low || middle >= high) break;
        (feasible(peers, counts, owners, middle) ? low : high) = middle;
    }
    return low;
}

// The rates m_i at a feasible X: every owner the same way between its bounds.
std::vector<double> shares_at(std::span<const PeerRates> peers,
                              const Counts& counts,
                              const std::vector<bool>& owners,
                              double total) {
    std::vector<Bounds> all;
    all.reserve(peers.size());
    double lows = 0;
    double highs = 0;
    for (std::size_t i = 0; i < peers.size(); ++i) {
        all.push_back(bounds_of(peers[i], counts, owners[i], total));
        lows += all[i].low;
        highs += all[i].high;
    }
    const double way = highs > lows ? std::clamp((total - lows) / (highs - lows), 0.0, 1.0) : 0;
    std::vector<double> shares(peers.size());
    for (std::size_t i = 0; i < peers.size(); ++i) {
        shares[i] = all[i].low + way * (all[i].high - all[i].low);
    }
    return shares;
}

// The peer that is the only contributor and the only receiver, if it may own everything: then
// nothing travels and no rate matters. Otherwise peers.size().
std::size_t lonely_peer(std::span<const PeerRates> peers, const Counts& counts) {
    if (counts.contributors > 1 || counts.receivers > 1) return peers.size();
    for (std::size_t i = 0; i < peers.size(); ++i) {
        const PeerRates& peer = peers[i];
        const bool all_contributions = peer.contributes;
        const bool all_receipts = peer.receives || counts.receivers == 0;
        if (all_contributions && all_receipts && peer.owns_allowed) return i;
    }
    return peers.size();
}

Ok check(std::span<const PeerRates> peers, std::uint64_t elements_count) {
    if (peers.empty() || peers.size() > peers_max) {
        return make_error(ErrorKind::bad_input,
                          "a plan needs 1 to {} peers, there are {}",
                          peers_max,
                          peers.size());
    }
    if (elements_count > elements_max) {
        return make_error(
            ErrorKind::bad_input, "{} elements are too many for a plan", elements_count);
    }
    bool any_contributor = false;
    bool any_owner = false;
    for (std::size_t i = 0; i < peers.size(); ++i) {
        const PeerRates& peer = peers[i];
        for (const double rate : {peer.upload_per_s, peer.download_per_s}) {
            if (!std::isfinite(rate) || rate < 0) {
                return make_error(
                    ErrorKind::bad_input, "peer {} of the plan has the rate {}", i, rate);
            }
        }
        any_contributor = any_contributor || peer.contributes;
        any_owner = any_owner || peer.owns_allowed;
    }
    if (!any_contributor) {
        return make_error(ErrorKind::bad_input, "no peer of the plan contributes a gradient");
    }
    if (!any_owner) {
        return make_error(ErrorKind::bad_input,
                          "no peer of the plan may own a part: nobody can be dialled");
    }
    return {};
}

// Why no total rate above zero is possible.
Error why_impossible(std::span<const PeerRates> peers) {
    for (std::size_t i = 0; i < peers.size(); ++i) {
        if (peers[i].contributes && peers[i].upload_per_s <= 0) {
            return make_error(
                ErrorKind::bad_input, "peer {} of the plan contributes but cannot send", i);
        }
        if (peers[i].receives && peers[i].download_per_s <= 0) {
            return make_error(
                ErrorKind::bad_input, "peer {} of the plan receives but cannot download", i);
        }
    }
    return make_error(ErrorKind::bad_input,
                      "no peer that may own parts of the plan has both upload and download");
}

struct Finish {
    double seconds = 0;
    Bottleneck bottleneck = Bottleneck::none;
    std::size_t peer = 0;
};

Finish finish_of(std::span<const PeerRates> peers, std::span<const std::uint64_t> part_elements) {
    const Counts counts = count(peers);
    double total = 0;
    for (const std::uint64_t part : part_elements) total += static_cast<double>(part);
    Finish finish;
    const auto consider = [&](double elements, double rate, Bottleneck kind, std::size_t peer) {
        const double seconds = elements > 0 ? elements / rate : 0;
        if (seconds > finish.seconds) finish = {seconds, kind, peer};
    };
    for (std::size_t i = 0; i < peers.size(); ++i) {
        const PeerRates& peer = peers[i];
        const auto part = static_cast<double>(part_elements[i]);
        const double c = peer.contributes ? 1 : 0;
        const double r = peer.receives ? 1 : 0;
        const double sent = c * (total - part) + (counts.receivers - r) * part;
        const double received = r * (total - part) + (counts.contributors - c) * part;
        consider(sent, peer.upload_per_s, Bottleneck::upload, i);
        consider(received, peer.download_per_s, Bottleneck::download, i);
    }
    return finish;
}

std::string explain(const Split& split, std::uint64_t elements_count) {
    std::size_t owners_count = 0;
    std::size_t largest = 0;
    for (std::size_t i = 0; i < split.part_elements.size(); ++i) {
        if (split.part_elements[i] > 0) ++owners_count;
        if (split.part_elements[i] > split.part_elements[largest]) largest = i;
    }
    if (elements_count == 0) return "There is nothing to average.";
    const double percent = 100.0 * static_cast<double>(split.part_elements[largest]) /
                           static_cast<double>(elements_count);
    const std::string who =
        owners_count == 1
            ? fmt::format("Peer {} reduces the whole vector", largest)
            : fmt::format("{} of {} peers reduce parts, peer {} the largest with {:.1f} %",
                          owners_count,
                          split.part_elements.size(),
                          largest,
                          percent);
    if (split.bottleneck == Bottleneck::none) return who + ", and nothing has to travel.";
    return fmt::format("{}; the {} of peer {} sets the time of {:.3g} s.",
                       who,
                       split.bottleneck == Bottleneck::upload ? "upload" : "download",
                       split.bottleneck_peer,
                       split.seconds);
}

// Forbids some owners whose parts are below the minimum: half of them, the smallest first, but
// as many as must go because the vector is too short for all. False when none is too small.
bool drop_small_owners(std::span<const std::uint64_t> part_elements,
                       std::uint64_t part_elements_min,
                       std::vector<bool>& owners) {
    std::vector<std::size_t> small;
    std::size_t owners_count = 0;
    std::uint64_t total = 0;
    for (std::size_t i = 0; i < part_elements.size(); ++i) {
        total += part_elements[i];
        if (part_elements[i] > 0) ++owners_count;
        if (part_elements[i] == 0) {
            owners[i] = false;
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
    for (std::size_t i = 0; i < dropped; ++i) owners[small[i]] = false;
    return true;
}

}  // namespace

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
    std::vector<std::size_t> order(shares.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        return remainders[a] > remainders[b];
    });
    std::uint64_t left = total - given;
    for (std::size_t turn = 0; left > 0; turn = (turn + 1) % order.size()) {
        if (shares[order[turn]] <= 0) continue;
        ++parts[order[turn]];
        --left;
    }
    return parts;
}

double predicted_seconds(std::span<const PeerRates> peers,
                         std::span<const std::uint64_t> part_elements) {
    DEDLOC_CHECK(peers.size() == part_elements.size());
    return finish_of(peers, part_elements).seconds;
}

Result<Split> split_elements(std::span<const PeerRates> peers,
                             std::uint64_t elements_count,
                             const SplitOptions& options) {
    DEDLOC_TRY_VOID(check(peers, elements_count));
    const Counts counts = count(peers);
    Split split;
    if (const std::size_t only = lonely_peer(peers, counts); only < peers.size()) {
        split.part_elements.assign(peers.size(), 0);
        split.part_elements[only] = elements_count;
        split.explanation = explain(split, elements_count);
        return split;
    }
    std::vector<bool> owners(peers.size());
    for (std::size_t i = 0; i < peers.size(); ++i) owners[i] = peers[i].owns_allowed;
    do {
        const double total = largest_total(peers, counts, owners);
        if (total <= 0 && !split.part_elements.empty()) break;  // no fewer owners can do it
        if (total <= 0) return why_impossible(peers);
        split.part_elements = apportion(shares_at(peers, counts, owners, total), elements_count);
    } while (options.part_elements_min > 0 &&
             drop_small_owners(split.part_elements, options.part_elements_min, owners));
    const Finish finish = finish_of(peers, split.part_elements);
    split.seconds = finish.seconds;
    split.bottleneck = finish.bottleneck;
    split.bottleneck_peer = finish.peer;
    split.explanation = explain(split, elements_count);
    return split;
}

}  // namespace dedloc::planner
