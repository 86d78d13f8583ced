// The compact linear programme with limits of links, by the dual simplex method.
//
// A vertex is n constraints that hold exactly, one for each owner's rate m_i. The first one has
// every m_i at its own limit, which is best and mostly impossible; then the constraint that is
// violated most takes the place of the one that costs the least by giving way, until none is
// violated. There are many constraints (two for each peer, one for each link), but each has the sum
// of all m_i and at most two of them, so looking through all is cheap; what grows is the inverse of
// the n that hold.
//
// Everything is measured in units of the best total rate that ignores that two owners share a link;
// the true one is between half of that unit and the whole of it, so absolute tolerances are
// relative ones of the result. Plain double arithmetic in a fixed order: the same plan on every
// machine.
//
// Source: Lemke, The dual method of solving the linear programming problem (1954); Bland's rule
// where a step gains nothing (1977). Cost: some n^2 + links for each of about 2 n steps.

#include <algorithm>
#include <cmath>
#include <numeric>

#include "dedloc/planner/optimum.h"

namespace dedloc::planner {
namespace {

constexpr double tolerance = 1e-12;
constexpr double pivot_least = 1e-9;
// The inverse of their constraints has eight bytes for each pair. Beyond, the slowest own nothing.
constexpr std::size_t link_owners_max = 1024;
// Far more than any programme has needed; a bound on the time, not on the result.
constexpr std::size_t steps_max = 200'000;
constexpr std::size_t steps_between_checks = 64;
constexpr std::size_t none = ~std::size_t{0};

class LinkProgramme {
  public:
    LinkProgramme(std::span<const PeerRates> peers,
                  const OwnerLimits& limits,
                  std::span<const LinkLimit> links,
                  const Optimum& relaxed)
        : peers_(peers), unit_(relaxed.total_per_s), owner_of_peer_(peers.size(), none) {
        choose_owners(limits, relaxed);
        add_rows_of_owners(limits);
        add_rows_of_peers();
        add_rows_of_links(links);
        begin();
    }

    Result<Optimum> solve() {
        for (std::size_t step = 0; step < steps_max; ++step) {
            if (step % steps_between_checks == 0 && !refine()) break;
            std::size_t row = most_violated();
            if (row == none) {
                // Rounding may have hidden something.
                if (!refine()) break;
                row = most_violated();
                if (row == none) return optimum();
            }
            if (!exchange(row)) break;
        }
        return make_error(ErrorKind::local_fault,
                          "the linear programme of a plan with {} owners and {} constraints was "
                          "given up",
                          size_,
                          rows_.size());
    }

  private:
    // sum (m_1 + … + m_n) + first_factor m_first + second_factor m_second <= bound
    struct Row {
        double sum = 0;
        std::size_t first = 0;
        double first_factor = 0;
        std::size_t second = 0;
        double second_factor = 0;
        double bound = 0;
    };

    void choose_owners(const OwnerLimits& limits, const Optimum& relaxed) {
        for (std::size_t i = 0; i < peers_.size(); ++i)
            if (std::min(1.0, limits[i] / unit_) > tolerance) owners_.push_back(i);
        if (owners_.size() > link_owners_max) {
            std::ranges::stable_sort(owners_, std::ranges::greater(), [&](std::size_t i) {
                return relaxed.owner_per_s[i];
            });
            owners_.resize(link_owners_max);
            std::ranges::sort(owners_);
        }
        size_ = owners_.size();
        for (std::size_t k = 0; k < size_; ++k) owner_of_peer_[owners_[k]] = k;
    }

    // Rows 0 to n - 1 are the owners' own limits: the first vertex.
    void add_rows_of_owners(const OwnerLimits& limits) {
        for (std::size_t k = 0; k < size_; ++k)
            rows_.push_back({.first = k,
                             .first_factor = 1,
                             .bound = std::min(1.0, limits[owners_[k]] / unit_)});
        for (std::size_t k = 0; k < size_; ++k) rows_.push_back({.first = k, .first_factor = -1});
        rows_.push_back({.sum = 1, .bound = 1});
    }

    // base X + factor m_i <= rate, where that can bind at all.
    void add_rate_row(std::size_t peer, double base, double factor, double rate) {
        const std::size_t owner = owner_of_peer_[peer];
        if (owner == none) factor = 0;
        const double most = base + (factor > 0 ? factor * rows_[owner].bound : 0);
        if (most <= rate / unit_ || (base == 0 && factor == 0)) return;
        rows_.push_back({.sum = base,
                         .first = owner == none ? 0 : owner,
                         .first_factor = factor,
                         .bound = rate / unit_});
    }

    void add_rows_of_peers() {
        const Counts counts = count(peers_);
        for (std::size_t i = 0; i < peers_.size(); ++i) {
            const PeerRates& peer = peers_[i];
            const double c = peer.contributing();
            const double r = peer.receiving();
            add_rate_row(i, c, counts.receivers - r - c, peer.upload_per_s);
            add_rate_row(i, r, counts.contributors - c - r, peer.download_per_s);
        }
    }

    // Links on which one owner's part travels alone have lowered its limit already.
    void add_rows_of_links(std::span<const LinkLimit> links) {
        for (const LinkLimit& link : links) {
            if (!peers_[link.from].contributes || !peers_[link.to].receives) continue;
            const std::size_t to = owner_of_peer_[link.to];
            const std::size_t from = owner_of_peer_[link.from];
            if (to == none || from == none) continue;
            const double bound = link.per_s / unit_;
            const double r = peers_[link.to].receiving();
            if (rows_[to].bound + r * rows_[from].bound <= bound) continue;
            rows_.push_back({.first = to,
                             .first_factor = 1,
                             .second = from,
                             .second_factor = r,
                             .bound = bound});
        }
    }

    void begin() {
        active_.resize(size_);
        std::iota(active_.begin(), active_.end(), std::size_t{0});
        is_active_.assign(rows_.size(), false);
        std::fill_n(is_active_.begin(), size_, true);
        inverse_.assign(size_ * size_, 0);
        for (std::size_t k = 0; k < size_; ++k) inverse_[k * size_ + k] = 1;
        prices_.assign(size_, 1);
        rates_.resize(size_);
        for (std::size_t k = 0; k < size_; ++k) rates_[k] = rows_[k].bound;
        costs_.resize(size_);
    }

    double excess(const Row& row, double sum) const {
        return row.sum * sum + row.first_factor * rates_[row.first] +
               row.second_factor * rates_[row.second] - row.bound;
    }

    // The worst of many, measured by how far away it is; while steps gain nothing the first one,
    // which ends every such stretch.
    std::size_t most_violated() const {
        const double sum = std::accumulate(rates_.begin(), rates_.end(), 0.0);
        double worst = 0;
        std::size_t found = none;
        for (std::size_t i = 0; i < rows_.size(); ++i) {
            const Row& row = rows_[i];
            const double violation = excess(row, sum);
            if (violation <= tolerance || is_active_[i]) continue;
            if (is_stuck()) return i;
            const double length = row.sum * std::sqrt(static_cast<double>(size_)) +
                                  std::abs(row.first_factor) + std::abs(row.second_factor);
            if (violation > worst * length) {
                worst = violation / length;
                found = i;
            }
        }
        return found;
    }

    bool is_stuck() const { return steps_without_gain_ > size_ + 100; }

    // The constraint takes the place of the one whose price for a step is the lowest.
    bool exchange(std::size_t entering) {
        const Row& row = rows_[entering];
        const double* first = inverse_.data() + row.first * size_;
        const double* second = inverse_.data() + row.second * size_;
        // The inverse's columns sum to the prices.
        for (std::size_t k = 0; k < size_; ++k)
            costs_[k] =
                row.sum * prices_[k] + row.first_factor * first[k] + row.second_factor * second[k];
        const std::size_t leaving = cheapest();
        if (leaving == none) return false;
        const double pivot = costs_[leaving];
        const double sum = std::accumulate(rates_.begin(), rates_.end(), 0.0);
        const double step = excess(row, sum) / pivot;
        const double gain = prices_[leaving] * step;
        steps_without_gain_ = gain > tolerance ? 0 : steps_without_gain_ + 1;
        costs_[leaving] = 0;
        for (std::size_t i = 0; i < size_; ++i) {
            double* line = inverse_.data() + i * size_;
            if (line[leaving] == 0) continue;
            rates_[i] -= line[leaving] * step;
            const double factor = line[leaving] / pivot;
            for (std::size_t k = 0; k < size_; ++k) line[k] -= factor * costs_[k];
            line[leaving] = factor;
        }
        const double factor = prices_[leaving] / pivot;
        for (std::size_t k = 0; k < size_; ++k)
            prices_[k] = std::max(0.0, prices_[k] - factor * costs_[k]);
        prices_[leaving] = factor;
        is_active_[active_[leaving]] = false;
        is_active_[entering] = true;
        active_[leaving] = entering;
        return true;
    }

    // Equal prices go by the largest pivot, or by the first constraint while steps gain nothing.
    std::size_t cheapest() const {
        std::size_t found = none;
        double lowest = 0;
        for (std::size_t k = 0; k < size_; ++k) {
            if (costs_[k] <= pivot_least) continue;
            const double price = prices_[k] / costs_[k];
            const bool equal = found != none && price == lowest;
            const bool better =
                equal && (is_stuck() ? active_[k] < active_[found] : costs_[k] > costs_[found]);
            if (found != none && price >= lowest && !better) continue;
            found = k;
            lowest = price;
        }
        return found;
    }

    // Removes what rounding left in the rates. False: the active constraints are not independent.
    bool refine() {
        constexpr double inverse_is_bad = 1e-7;
        if (largest_residual() > inverse_is_bad) {
            if (!invert()) return false;
            std::ranges::fill(rates_, 0.0);
        }
        for (int turn = 0; turn < 2; ++turn) {
            (void)largest_residual();  // fills residuals_
            for (std::size_t i = 0; i < size_; ++i) {
                const double* line = inverse_.data() + i * size_;
                rates_[i] -= std::inner_product(line, line + size_, residuals_.begin(), 0.0);
            }
        }
        return true;
    }

    double largest_residual() {
        residuals_.resize(size_);
        const double sum = std::accumulate(rates_.begin(), rates_.end(), 0.0);
        double largest = 0;
        for (std::size_t k = 0; k < size_; ++k) {
            residuals_[k] = excess(rows_[active_[k]], sum);
            largest = std::max(largest, std::abs(residuals_[k]));
        }
        return largest;
    }

    // Gauss and Jordan, with the largest pivot of each column.
    bool invert() {
        std::vector<double> matrix(size_ * size_);
        inverse_.assign(size_ * size_, 0);
        for (std::size_t k = 0; k < size_; ++k) {
            const Row& row = rows_[active_[k]];
            double* line = matrix.data() + k * size_;
            std::fill_n(line, size_, row.sum);
            line[row.first] += row.first_factor;
            line[row.second] += row.second_factor;
            inverse_[k * size_ + k] = 1;
        }
        for (std::size_t column = 0; column < size_; ++column)
            if (!eliminate(matrix, column)) return false;
        std::ranges::fill(prices_, 0.0);
        for (std::size_t i = 0; i < size_; ++i)
            for (std::size_t k = 0; k < size_; ++k) prices_[k] += inverse_[i * size_ + k];
        for (double& price : prices_) price = std::max(price, 0.0);
        return true;
    }

    bool eliminate(std::vector<double>& matrix, std::size_t column) {
        const auto line = [&](std::vector<double>& of, std::size_t row) {
            return of.begin() + static_cast<std::ptrdiff_t>(row * size_);
        };
        const auto width = static_cast<std::ptrdiff_t>(size_);
        std::size_t best = column;
        for (std::size_t row = column + 1; row < size_; ++row)
            if (std::abs(matrix[row * size_ + column]) > std::abs(matrix[best * size_ + column]))
                best = row;
        const double pivot = matrix[best * size_ + column];
        if (std::abs(pivot) <= pivot_least) return false;
        if (best != column)
            for (std::vector<double>* of : {&matrix, &inverse_})
                std::swap_ranges(line(*of, best), line(*of, best) + width, line(*of, column));
        for (std::vector<double>* of : {&matrix, &inverse_})
            for (auto at = line(*of, column); at != line(*of, column) + width; ++at) *at /= pivot;
        for (std::size_t row = 0; row < size_; ++row) {
            const double factor = matrix[row * size_ + column];
            if (row == column || factor == 0) continue;
            for (std::vector<double>* of : {&matrix, &inverse_}) {
                auto from = line(*of, column);
                for (auto at = line(*of, row); at != line(*of, row) + width; ++at, ++from)
                    *at -= factor * *from;
            }
        }
        return true;
    }

    Optimum optimum() const {
        Optimum best;
        best.owner_per_s.assign(peers_.size(), 0);
        for (std::size_t k = 0; k < size_; ++k) {
            const double rate = std::max(0.0, rates_[k]) * unit_;
            best.owner_per_s[owners_[k]] = rate;
            best.total_per_s += rate;
        }
        return best;
    }

    std::span<const PeerRates> peers_;
    double unit_;
    std::vector<std::size_t> owners_;         // the peer that each m_k belongs to
    std::vector<std::size_t> owner_of_peer_;  // its k, or none
    std::size_t size_ = 0;
    std::vector<Row> rows_;
    std::vector<std::size_t> active_;  // the n rows that hold exactly
    std::vector<bool> is_active_;      // of every row
    std::vector<double> inverse_;      // of the active rows' factors
    std::vector<double> prices_;       // what X gains by one unit more of each active bound
    std::vector<double> rates_;        // m
    std::vector<double> costs_;
    std::vector<double> residuals_;
    std::size_t steps_without_gain_ = 0;
};

bool links_hold(std::span<const PeerRates> peers,
                std::span<const LinkLimit> links,
                const std::vector<double>& rates) {
    return std::all_of(links.begin(), links.end(), [&](const LinkLimit& link) {
        const double c = peers[link.from].contributes ? rates[link.to] : 0;
        const double r = peers[link.to].receiving() * rates[link.from];
        return c + r <= link.per_s;
    });
}

}  // namespace

Result<Optimum> optimum_with_links(std::span<const PeerRates> peers,
                                   const OwnerLimits& limits,
                                   std::span<const LinkLimit> links) {
    const OwnerLimits lowered = limits_of_links(peers, limits, links);
    Optimum relaxed = optimum_without_links(peers, lowered);
    if (relaxed.total_per_s <= 0 || links_hold(peers, links, relaxed.owner_per_s)) return relaxed;
    return LinkProgramme(peers, lowered, links, relaxed).solve();
}

}  // namespace dedloc::planner
