#include "dedloc/planner/samples_at_rate.h"

#include <algorithm>
#include <numeric>

#include "dedloc/planner/optimum.h"

namespace dedloc::planner {
namespace {

constexpr double impossible = -1;

class Knapsack {
  public:
    Knapsack(std::span<const PeerRates> peers, std::span<const double> speeds, double total)
        : peers_(peers), speeds_(speeds), total_(total), receivers_(count(peers).receivers) {
        for (std::size_t i = 0; i < peers.size(); ++i) {
            if (!peers[i].contributes) continue;
            candidates_.push_back(i);
            fastest_ = std::max(fastest_, speeds[i]);
        }
    }

    std::vector<bool> best() {
        const std::size_t most = candidates_.size();
        const std::size_t step = (most + contributor_counts_max - 1) / contributor_counts_max;
        for (std::size_t chosen = most; chosen > 0; chosen -= std::min(step, chosen))
            try_count(chosen);
        std::vector<bool> result;
        if (best_.empty()) return result;
        result.resize(peers_.size());
        for (const std::size_t i : best_) result[i] = true;
        return result;
    }

  private:
    struct Item {
        std::size_t peer = 0;
        double samples = 0;
        double cost = 0;  // capacity that is lost if it contributes
        double score = 0;
    };

    // The highest m_i, or impossible.
    double capacity(std::size_t i, bool contributes, double contributors) const {
        const PeerRates& peer = peers_[i];
        const double c = contributes ? 1 : 0;
        const double r = peer.receiving();
        double most = peer.owns_allowed ? total_ : 0;
        const auto bound = [&](double room, double factor) {
            if (factor > 0)
                most = room < 0 ? impossible : std::min(most, room / factor);
            else if (factor == 0 && room < 0)
                most = impossible;
        };
        bound(peer.upload_per_s - c * total_, receivers_ - r - c);
        if (most == impossible) return most;
        bound(peer.download_per_s - r * total_, contributors - c - r);
        return most;
    }

    void try_count(std::size_t chosen) {
        const auto contributors = static_cast<double>(chosen);
        double spare = -total_;
        std::vector<Item> items;
        for (std::size_t i = 0; i < peers_.size(); ++i) {
            const double idle = capacity(i, false, contributors);
            if (idle == impossible) return;  // it cannot even receive
            spare += idle;
            if (!peers_[i].contributes) continue;
            const double busy = capacity(i, true, contributors);
            if (busy == impossible) continue;
            items.push_back({i, speeds_[i], std::max(0.0, idle - busy), 0});
        }
        if (items.size() < chosen) return;
        // The lowest price of capacity at which the chosen ones fit.
        if (fits(items, chosen, 0, spare) || !fits(items, chosen, 1, spare)) return;
        double low = 0;
        double high = 1;
        constexpr int halvings = 12;
        for (int i = 0; i < halvings; ++i) {
            const double middle = (low + high) / 2;
            (fits(items, chosen, middle, spare) ? high : low) = middle;
        }
    }

    // Chooses by score at a price; keeps the choice if it is the best one that fits.
    bool fits(std::vector<Item>& items, std::size_t chosen, double price, double spare) {
        for (Item& item : items)
            item.score = (1 - price) * item.samples / fastest_ - price * item.cost / total_;
        const auto end = items.begin() + static_cast<std::ptrdiff_t>(chosen);
        std::nth_element(items.begin(), end - 1, items.end(), [](const Item& a, const Item& b) {
            return a.score != b.score ? a.score > b.score : a.peer < b.peer;
        });
        double samples = 0;
        double cost = 0;
        for (auto item = items.begin(); item != end; ++item) {
            samples += item->samples;
            cost += item->cost;
        }
        if (cost > spare) return false;
        if (samples > best_samples_) {
            best_samples_ = samples;
            best_.clear();
            for (auto item = items.begin(); item != end; ++item) best_.push_back(item->peer);
        }
        return true;
    }

    std::span<const PeerRates> peers_;
    std::span<const double> speeds_;
    double total_;
    double receivers_;
    double fastest_ = 0;
    std::vector<std::size_t> candidates_;
    std::vector<std::size_t> best_;
    double best_samples_ = 0;
};

}  // namespace

std::vector<bool> most_samples_at(std::span<const PeerRates> peers,
                                  std::span<const double> samples_per_s,
                                  double total_per_s) {
    return Knapsack(peers, samples_per_s, total_per_s).best();
}

}  // namespace dedloc::planner
