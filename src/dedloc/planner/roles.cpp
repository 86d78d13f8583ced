#include "dedloc/planner/roles.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <numeric>

#include "dedloc/planner/optimum.h"
#include "dedloc/planner/samples_at_rate.h"

namespace dedloc::planner {
namespace {

// A choice must be better by more than rounding to be preferred to one with more trainers.
constexpr double better_by = 1 + 1e-9;
// Places of a chain that are looked at, besides its ends; more than halving its longest takes.
constexpr int chain_trials_max = 40;

struct Value {
    double samples_per_s = 0;
    double computing = 0;  // steps per second that are computed
    double averaging = 0;  // steps per second that are averaged
    bool delayed = false;

    double steps_per_s() const { return 1 / step_seconds(1 / computing, 1 / averaging, delayed); }
};

class ComputeSearch {
  public:
    explicit ComputeSearch(const ComputeQuestion& question)
        : question_(question), trial_(question.peers.begin(), question.peers.end()) {
        for (std::size_t i = 0; i < trial_.size(); ++i) {
            // A peer that computes nothing need not send it.
            if (trial_[i].contributes && question.samples_per_s[i] > 0)
                candidates_.push_back(i);
            else
                trial_[i].contributes = false;
        }
    }

    Result<ComputeChoice> run() {
        if (candidates_.empty())
            return make_error(ErrorKind::bad_input, "no peer of the plan computes any samples");
        DEDLOC_TRY(const Value all, value());
        ComputeChoice choice;
        choice.steps_per_s_of_all = all.steps_per_s();
        keep(all);
        double slowest = question_.samples_per_s[candidates_.front()];
        for (const std::size_t i : candidates_)
            slowest = std::min(slowest, question_.samples_per_s[i]);
        if ((all.samples_per_s - slowest) / question_.batch_samples > all.steps_per_s()) {
            choice.every_choice_tried = candidates_.size() <= all_choices_max;
            DEDLOC_TRY_VOID(choice.every_choice_tried ? try_all() : try_chains());
        } else {
            // Not even averaging in no time would make up for the slowest trainer.
            choice.every_choice_tried = true;
        }
        if (best_.steps_per_s() <= 0) return why_impossible();
        choice.computes = best_computes_;
        choice.samples_per_s = best_.samples_per_s;
        choice.steps_per_s = best_.steps_per_s();
        return choice;
    }

  private:
    // For every set of trainers, all who need the average must get it.
    Error why_impossible() const {
        std::vector<std::size_t> deaf;
        for (std::size_t i = 0; i < question_.peers.size(); ++i)
            if (question_.peers[i].receives && question_.peers[i].download_per_s <= 0)
                deaf.push_back(i);
        if (deaf.empty())
            return make_error(ErrorKind::bad_input,
                              "whoever computes, the peers of the plan cannot average anything");
        const std::size_t first = deaf.front();
        const std::size_t more = deaf.size() - 1;
        return make_error(
            ErrorKind::bad_input,
            "{}{} can download nothing, and without the average nobody goes on: leave {} out of "
            "the plan, or say what {} carries",
            question_.names.empty() ? fmt::format("peer {}", first) : question_.names[first],
            more == 0 ? "" : fmt::format(" and {} other{}", more, more == 1 ? "" : "s"),
            more == 0 ? "it" : "them",
            more == 0 ? "its line" : "their lines");
    }

    // The value of the trial as it stands.
    Result<Value> value() const {
        Value value{.delayed = question_.delayed};
        for (std::size_t i = 0; i < trial_.size(); ++i)
            if (trial_[i].contributes) value.samples_per_s += question_.samples_per_s[i];
        value.computing = value.samples_per_s / question_.batch_samples;
        if (value.samples_per_s <= 0) return value;
        DEDLOC_TRY(const double total, largest_total(trial_, question_.links));
        value.averaging = total / question_.elements_count;
        return value;
    }

    void keep(const Value& value) {
        best_ = value;
        best_computes_.resize(trial_.size());
        for (std::size_t i = 0; i < trial_.size(); ++i) best_computes_[i] = trial_[i].contributes;
    }
    Result<bool> keep_if_better() {
        DEDLOC_TRY(const Value one, value());
        return keep_if_better(one);
    }
    // The value of the trial as it stands.
    bool keep_if_better(const Value& one) {
        const double before = best_.steps_per_s();
        const double now = one.steps_per_s();
        const bool equal = now * better_by >= before && before * better_by >= now;
        if (!(now > before * better_by) && !(equal && one.samples_per_s > best_.samples_per_s))
            return false;
        keep(one);
        return true;
    }

    Ok try_all() {
        const std::uint32_t choices = 1u << candidates_.size();
        for (std::uint32_t choice = 1; choice < choices; ++choice) {
            for (std::size_t i = 0; i < candidates_.size(); ++i)
                trial_[candidates_[i]].contributes = (choice >> i & 1) != 0;
            DEDLOC_TRY_VOID(keep_if_better());
        }
        return {};
    }

    Ok try_chains() {
        const auto speed = [&](std::size_t i) { return question_.samples_per_s[i]; };
        const auto upload = [&](std::size_t i) { return question_.peers[i].upload_per_s; };
        const auto download = [&](std::size_t i) { return question_.peers[i].download_per_s; };
        // The lowest value goes first.
        const std::function<double(std::size_t)> rules[] = {
            upload,
            speed,
            [&](std::size_t i) { return -speed(i) / upload(i); },
            [&](std::size_t i) { return speed(i) * upload(i); },
            [&](std::size_t i) { return std::min(upload(i), download(i)); },
            [&](std::size_t i) { return speed(i) / std::min(upload(i), download(i)); },
        };
        for (const auto& rule : rules) DEDLOC_TRY_VOID(search_chain(rule));
        if (trial_.size() <= local_search_peers_max && question_.links.empty())
            DEDLOC_TRY_VOID(search_rates());
        if (trial_.size() <= local_search_peers_max &&
            question_.links.size() <= local_search_links_max) {
            DEDLOC_TRY_VOID(try_alone());
            DEDLOC_TRY_VOID(improve());
        }
        return {};
    }

    Ok search_chain(const std::function<double(std::size_t)>& rule) {
        std::vector<std::size_t> order = candidates_;
        std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
            return rule(a) < rule(b);
        });
        const auto drop_first = [&](std::size_t count) {
            for (std::size_t i = 0; i < order.size(); ++i)
                trial_[order[i]].contributes = i >= count;
        };
        struct Place {
            std::size_t dropped = 0;
            Value value{};
        };
        const auto try_at = [&](std::size_t dropped) -> Result<Place> {
            drop_first(dropped);
            DEDLOC_TRY(const Value one, value());
            keep_if_better(one);
            return Place{dropped, one};
        };
        DEDLOC_TRY(const Place first, try_at(0));
        DEDLOC_TRY(const Place last, try_at(order.size() - 1));
        // The widest pieces first, as there may be no time for all.
        std::deque<std::pair<Place, Place>> pieces;
        pieces.emplace_back(first, last);
        for (int trials = 0; !pieces.empty() && trials < chain_trials_max;) {
            const auto [low, high] = pieces.front();
            pieces.pop_front();
            if (high.dropped - low.dropped <= 1) continue;
            // Between them nothing computes faster than the first or averages faster than the last.
            const Value bound{.computing = low.value.computing,
                              .averaging = high.value.averaging,
                              .delayed = question_.delayed};
            if (!(bound.steps_per_s() > best_.steps_per_s() * better_by)) continue;
            DEDLOC_TRY(const Place middle, try_at(low.dropped + (high.dropped - low.dropped) / 2));
            ++trials;
            pieces.emplace_back(low, middle);
            pieces.emplace_back(middle, high);
        }
        return {};
    }

    // The faster the averaging, the fewer samples can be contributed.
    Ok search_rates() {
        std::vector<PeerRates> candidates(question_.peers.begin(), question_.peers.end());
        double samples = 0;
        for (std::size_t i = 0; i < candidates.size(); ++i) {
            candidates[i].contributes = false;
            for (const std::size_t j : candidates_) candidates[i].contributes |= i == j;
            if (candidates[i].contributes) samples += question_.samples_per_s[i];
        }
        // Tries the choice for so many averaged steps per second.
        const auto try_rate = [&](double steps_per_s) -> Result<Value> {
            const std::vector<bool> chosen = most_samples_at(
                candidates, question_.samples_per_s, steps_per_s * question_.elements_count);
            if (chosen.empty()) return Value{};
            for (std::size_t j = 0; j < trial_.size(); ++j) trial_[j].contributes = chosen[j];
            DEDLOC_TRY(const Value one, value());
            keep_if_better(one);
            return one;
        };
        constexpr int rates = 30;
        const double most = samples / question_.batch_samples;
        if (question_.delayed) {
            // The best rate is where both make the same number of steps.
            double low = 0;
            double high = most;
            for (int i = 0; i < rates; ++i) {
                const double middle = (low + high) / 2;
                DEDLOC_TRY(const Value one, try_rate(middle));
                (one.computing > middle ? low : high) = middle;
            }
            return {};
        }
        if (!(best_.steps_per_s() > 0)) return {};
        // Averaging has at most what computing by all leaves of the best step so far; whether it
        // takes a hundredth of a step or less is all the same.
        const double step_s = 1 / best_.steps_per_s();
        const double averaging_s = step_s - 1 / most;
        const double ratio = 0.01 * step_s / averaging_s;
        for (int i = 0; i < rates && ratio < 1; ++i)
            DEDLOC_TRY_VOID(try_rate(1 / (averaging_s * std::pow(ratio, (i + 0.5) / rates))));
        return {};
    }

    // One trainer alone need not receive what it reduces itself: a case of its own.
    Ok try_alone() {
        for (const std::size_t i : candidates_) {
            for (PeerRates& peer : trial_) peer.contributes = false;
            trial_[i].contributes = true;
            DEDLOC_TRY_VOID(keep_if_better());
        }
        return {};
    }

    // One trainer more or less, or one for another, as long as that helps.
    Ok improve() {
        constexpr int rounds = 8;
        bool improved = true;
        for (int round = 0; round < rounds && improved; ++round) {
            improved = false;
            for (const std::size_t i : candidates_) {
                DEDLOC_TRY(const bool better, try_with_flipped({i}));
                improved = improved || better;
            }
            if (trial_.size() > exchange_peers_max) continue;
            for (const std::size_t i : candidates_) {
                for (const std::size_t j : candidates_) {
                    if (!best_computes_[i] || best_computes_[j]) continue;
                    DEDLOC_TRY(const bool better, try_with_flipped({i, j}));
                    improved = improved || better;
                }
            }
        }
        return {};
    }
    Result<bool> try_with_flipped(std::initializer_list<std::size_t> flipped) {
        for (std::size_t i = 0; i < trial_.size(); ++i) trial_[i].contributes = best_computes_[i];
        for (const std::size_t i : flipped) trial_[i].contributes = !trial_[i].contributes;
        return keep_if_better();
    }

    const ComputeQuestion& question_;
    std::vector<PeerRates> trial_;
    std::vector<std::size_t> candidates_;
    Value best_;
    std::vector<bool> best_computes_;
};

}  // namespace

double step_seconds(double computing_s, double averaging_s, bool delayed) {
    return delayed ? std::max(computing_s, averaging_s) : computing_s + averaging_s;
}

Result<ComputeChoice> choose_computing(const ComputeQuestion& question) {
    DEDLOC_CHECK(question.samples_per_s.size() == question.peers.size() &&
                 question.batch_samples > 0 && question.elements_count > 0);
    const SplitOptions options{
        .part_elements_min = 0, .links = question.links, .names = question.names};
    DEDLOC_TRY_VOID(check_network(question.peers, 0, options));
    for (std::size_t i = 0; i < question.peers.size(); ++i) {
        const double speed = question.samples_per_s[i];
        if (!std::isfinite(speed) || speed < 0)
            return make_error(
                ErrorKind::bad_input, "peer {} computes {} samples a second", i, speed);
    }
    return ComputeSearch(question).run();
}

Result<AggregatorAdvice> advise_on_aggregator(std::span<const PeerRates> peers,
                                              std::span<const LinkLimit> links,
                                              double elements_count) {
    DEDLOC_TRY_VOID(check_network(peers, 0, {.part_elements_min = 0, .links = links, .names = {}}));
    AggregatorAdvice advice;
    DEDLOC_TRY(const double total_now, largest_total(peers, links));
    if (!(total_now > 0) || std::isinf(total_now)) return advice;  // nothing travels
    advice.seconds_now = elements_count / total_now;
    std::vector<PeerRates> more(peers.begin(), peers.end());
    more.push_back({.contributes = false, .receives = false, .owns_allowed = true});
    const auto total_with = [&](double rate) {
        more.back().upload_per_s = more.back().download_per_s = rate;
        return largest_total(more, links);
    };
    // For every X, an aggregator that owns everything receives C times and sends R times X, and X
    // is at most the fastest link.
    const Counts counts = count(peers);
    double fastest = 0;
    for (const PeerRates& peer : peers)
        fastest = std::max({fastest, peer.upload_per_s, peer.download_per_s});
    double enough = fastest * std::max({counts.contributors, counts.receivers, 1.0});
    DEDLOC_TRY(const double total_best, total_with(enough));
    advice.seconds_best = elements_count / total_best;
    constexpr double nearly = 0.99;
    if (total_now >= nearly * total_best) {
        advice.seconds_best = std::min(advice.seconds_best, advice.seconds_now);
        return advice;
    }
    double too_little = enough * 1e-9;
    constexpr double precision = 1.01;
    while (enough > too_little * precision) {
        const double middle = std::sqrt(too_little * enough);
        DEDLOC_TRY(const double total, total_with(middle));
        (total >= nearly * total_best ? enough : too_little) = middle;
    }
    advice.rate_per_s = enough;
    return advice;
}

}  // namespace dedloc::planner
