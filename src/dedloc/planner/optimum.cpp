#include "dedloc/planner/optimum.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace dedloc::planner {
namespace {

// Lowest and highest m_i for a total rate X; empty when low > high. slope: of high, by X.
struct Bounds {
    double low = 0;
    double high = 0;
    double slope = 0;
};

// base * X + coefficient * m <= rate narrows the bounds of m.
void narrow(Bounds& bounds, double base, double coefficient, double rate, double total) {
    const double room = rate - base * total;
    if (coefficient > 0) {
        if (room < bounds.high * coefficient) {
            bounds.high = room / coefficient;
            bounds.slope = -base / coefficient;
        }
    } else if (coefficient < 0) {
        bounds.low = std::max(bounds.low, room / coefficient);
    } else if (room < 0) {
        bounds.high = -1;
    }
}

Bounds bounds_of(const PeerRates& peer, const Counts& counts, double limit, double total) {
    const double c = peer.contributing();
    const double r = peer.receiving();
    Bounds bounds{.low = 0, .high = std::min(limit, total), .slope = limit > total ? 1.0 : 0.0};
    narrow(bounds, c, counts.receivers - r - c, peer.upload_per_s, total);
    narrow(bounds, r, counts.contributors - c - r, peer.download_per_s, total);
    return bounds;
}

// All bounds together at one total rate X: feasible when X lies between their sums.
struct Sums {
    double lows = 0;
    double highs = 0;
    double slopes = 0;  // of highs, by X
    bool empty = false;

    bool feasible(double total) const { return !empty && lows <= total && total <= highs; }
};

Sums sums_at(std::span<const PeerRates> peers,
             const Counts& counts,
             const OwnerLimits& limits,
             double total) {
    Sums sums;
    for (std::size_t i = 0; i < peers.size(); ++i) {
        const Bounds bounds = bounds_of(peers[i], counts, limits[i], total);
        if (bounds.low > bounds.high) sums.empty = true;
        sums.lows += bounds.low;
        sums.highs += bounds.high;
        sums.slopes += bounds.slope;
    }
    return sums;
}

// A total rate that cannot be exceeded: everything that travels is somebody's download, at least
// X elements a second travel, and who is not better off by owning sends or receives all of X.
double total_bound(std::span<const PeerRates> peers, const Counts& counts) {
    double bound = 0;
    for (const PeerRates& peer : peers) bound += peer.download_per_s;
    for (const PeerRates& peer : peers) {
        const double c = peer.contributing();
        const double r = peer.receiving();
        if (c > 0 && counts.receivers - r - c >= 0) bound = std::min(bound, peer.upload_per_s);
        if (r > 0 && counts.contributors - c - r >= 0)
            bound = std::min(bound, peer.download_per_s / r);
    }
    return bound;
}

// The largest feasible X. Every feasible point scales down, so feasibility has one edge.
double largest_feasible(std::span<const PeerRates> peers,
                        const Counts& counts,
                        const OwnerLimits& limits) {
    // Newton from above: the sum of the highest m_i is concave in X, so its tangent at an X that
    // is too large meets the line sum = X at one that is not too small.
    constexpr int newton_steps = 60;
    double high = total_bound(peers, counts);
    for (int i = 0; i < newton_steps && high > 0; ++i) {
        const Sums sums = sums_at(peers, counts, limits, high);
        if (sums.feasible(high)) return high;
        if (sums.empty || sums.slopes >= 1) break;
        const double next = high - (sums.highs - high) / (sums.slopes - 1);
        if (!(next < high)) break;
        high = std::max(next, 0.0);
    }
    // The difference left is rounding, or an edge that the lowest m_i make. Bisection needs no
    // reason.
    double low = high * (1 - 1e-12);
    if (!sums_at(peers, counts, limits, low).feasible(low)) low = 0;
    constexpr int halvings = 200;  // 53 bits of result, and an edge down to 2^-147 of `high`
    for (int i = 0; i < halvings; ++i) {
        const double middle = low + (high - low) / 2;
        if (middle <= low || middle >= high) break;
        (sums_at(peers, counts, limits, middle).feasible(middle) ? low : high) = middle;
    }
    return low;
}

// The highest m_i when owners may fill only this share of their lines; never below the lowest.
std::vector<double> highest_within(double share,
                                   std::span<const PeerRates> peers,
                                   const Counts& counts,
                                   const OwnerLimits& limits,
                                   double total) {
    std::vector<double> highest;
    highest.reserve(peers.size());
    for (std::size_t i = 0; i < peers.size(); ++i) {
        const Bounds whole = bounds_of(peers[i], counts, limits[i], total);
        PeerRates line = peers[i];
        line.upload_per_s *= share;
        line.download_per_s *= share;
        const double within = bounds_of(line, counts, limits[i], total).high;
        highest.push_back(std::max(whole.low, std::min(within, whole.high)));
    }
    return highest;
}

// Picks, of all ways to reach X, the one that fills owners' links the least: all the same share of
// them, and a peer whose link is fuller with what it contributes owns nothing. Rates are never
// quite what they are believed to be, and a line that a plan fills is the one that everybody waits
// for.
std::vector<double> with_most_room(std::span<const PeerRates> peers,
                                   const Counts& counts,
                                   const OwnerLimits& limits,
                                   double total) {
    constexpr int halvings = 16;  // what they leave is shared out
    double less = 0;
    double enough = 1;
    std::vector<double> lower = highest_within(less, peers, counts, limits, total);
    std::vector<double> upper = highest_within(enough, peers, counts, limits, total);
    for (int i = 0; i < halvings; ++i) {
        const double middle = (less + enough) / 2;
        std::vector<double> rates = highest_within(middle, peers, counts, limits, total);
        const bool reached = std::accumulate(rates.begin(), rates.end(), 0.0) >= total;
        (reached ? enough : less) = middle;
        (reached ? upper : lower) = std::move(rates);
    }
    const double lowers = std::accumulate(lower.begin(), lower.end(), 0.0);
    const double uppers = std::accumulate(upper.begin(), upper.end(), 0.0);
    const double way =
        uppers > lowers ? std::clamp((total - lowers) / (uppers - lowers), 0.0, 1.0) : 0;
    for (std::size_t i = 0; i < peers.size(); ++i) lower[i] += way * (upper[i] - lower[i]);
    return lower;
}

}  // namespace

Counts count(std::span<const PeerRates> peers) {
    Counts counts;
    for (const PeerRates& peer : peers) {
        counts.contributors += peer.contributing();
        counts.receivers += peer.receiving();
    }
    return counts;
}

Optimum optimum_without_links(std::span<const PeerRates> peers, const OwnerLimits& limits) {
    const Counts counts = count(peers);
    Optimum optimum;
    optimum.total_per_s = largest_feasible(peers, counts, limits);
    optimum.owner_per_s = with_most_room(peers, counts, limits, optimum.total_per_s);
    return optimum;
}

OwnerLimits allowed_owners(std::span<const PeerRates> peers) {
    OwnerLimits limits;
    limits.reserve(peers.size());
    for (const PeerRates& peer : peers) limits.push_back(peer.owns_allowed ? unlimited : 0);
    return limits;
}

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

OwnerLimits limits_of_links(std::span<const PeerRates> peers,
                            OwnerLimits limits,
                            std::span<const LinkLimit> links) {
    for (const LinkLimit& link : links) {
        // c_i m_k + r_k m_i <= t: each of the two alone.
        if (peers[link.from].contributes) limits[link.to] = std::min(limits[link.to], link.per_s);
        if (peers[link.to].receives)
            limits[link.from] =
                std::min(limits[link.from], link.per_s / peers[link.to].receiving());
    }
    return limits;
}

Result<double> largest_total(std::span<const PeerRates> peers, std::span<const LinkLimit> links) {
    const Counts counts = count(peers);
    if (lonely_peer(peers, counts) < peers.size()) return unlimited;
    if (counts.contributors == 0) return 0.0;
    if (links.empty()) return largest_feasible(peers, counts, allowed_owners(peers));
    DEDLOC_TRY(const Optimum optimum, optimum_with_links(peers, allowed_owners(peers), links));
    return optimum.total_per_s;
}

}  // namespace dedloc::planner
