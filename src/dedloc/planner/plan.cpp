#include "dedloc/planner/plan.h"

#include <algorithm>
#include <cmath>

#include "dedloc/planner/explanation.h"
#include "dedloc/planner/left_out.h"
#include "dedloc/planner/optimum.h"

namespace dedloc::planner {
namespace {

// Equal parts for the trainers that may own: what a plain all-reduce does.
double seconds_equal(std::span<const PeerRates> peers,
                     std::span<const LinkLimit> links,
                     std::uint64_t elements_count) {
    std::vector<double> shares;
    for (const PeerRates& peer : peers)
        shares.push_back(peer.owns_allowed && (peer.contributes || peer.receives) ? 1 : 0);
    if (std::all_of(shares.begin(), shares.end(), [](double share) { return share == 0; }))
        return unlimited;
    return predicted_seconds(peers, apportion(shares, elements_count), links);
}

// The best of the parameter servers: whoever is the quickest to hear all and tell all, and reaches
// all.
double seconds_server(std::span<const PeerRates> peers,
                      std::span<const LinkLimit> links,
                      std::uint64_t elements_count) {
    const Counts counts = count(peers);
    const OwnerLimits reach = limits_of_links(peers, allowed_owners(peers), links);
    std::size_t best = peers.size();
    double best_time = unlimited;
    for (std::size_t i = 0; i < peers.size(); ++i) {
        const double sends = counts.receivers - peers[i].receiving();
        const double hears = counts.contributors - peers[i].contributing();
        const double time = std::max({sends > 0 ? sends / peers[i].upload_per_s : 0,
                                      hears > 0 ? hears / peers[i].download_per_s : 0,
                                      1 / reach[i]});
        if (time < best_time) {
            best_time = time;
            best = i;
        }
    }
    if (best == peers.size()) return unlimited;
    std::vector<std::uint64_t> parts(peers.size());
    parts[best] = elements_count;
    return predicted_seconds(peers, parts, links);
}

// "a", "a and b", "a and 7 others"
std::string some(const std::vector<std::string>& names) {
    if (names.size() == 1) return names[0];
    if (names.size() == 2) return fmt::format("{} and {}", names[0], names[1]);
    return fmt::format("{} and {} others", names[0], names.size() - 1);
}

class Planner {
  public:
    explicit Planner(const LoadQuestion& question) : question_(question) {
        for (const PlanPeer& peer : question.peers) {
            plan_.peers.push_back(peer.rates);
            names_.push_back(peer.name);
            plan_.has_aggregators = plan_.has_aggregators || peer.is_aggregator();
        }
    }

    Result<LoadPlan> run() {
        const SplitOptions options{.part_elements_min = question_.part_elements_min,
                                   .links = question_.links,
                                   .names = names_};
        if (question_.batch_samples > 0 && question_.elements_count > 0) DEDLOC_TRY_VOID(choose());
        DEDLOC_TRY(plan_.split, split_elements(plan_.peers, question_.elements_count, options));
        plan_.sentences.push_back(plan_.split.explanation);
        if (plan_.computing) {
            time_step();
            DEDLOC_TRY_VOID(leave_out());
        }
        compare();
        DEDLOC_TRY_VOID(advise());
        return std::move(plan_);
    }

  private:
    Ok choose() {
        std::vector<double> speeds;
        for (const PlanPeer& peer : question_.peers) speeds.push_back(peer.samples_per_s);
        const ComputeQuestion asked{.peers = plan_.peers,
                                    .samples_per_s = speeds,
                                    .batch_samples = question_.batch_samples,
                                    .elements_count = static_cast<double>(question_.elements_count),
                                    .delayed = question_.delayed,
                                    .links = question_.links,
                                    .names = names_};
        auto choice = choose_computing(asked);
        if (!choice) return std::move(choice).error();
        for (std::size_t i = 0; i < plan_.peers.size(); ++i)
            plan_.peers[i].contributes = choice->computes[i];
        plan_.computing = *std::move(choice);
        return {};
    }

    // With the round as it is planned: without parts that are too small.
    void time_step() {
        ComputeChoice& choice = *plan_.computing;
        const bool all = choice.steps_per_s == choice.steps_per_s_of_all;
        choice.steps_per_s = 1 / step_seconds(question_.batch_samples / choice.samples_per_s,
                                              plan_.split.seconds,
                                              question_.delayed);
        if (all) choice.steps_per_s_of_all = choice.steps_per_s;
    }

    // Leaves out some of those who may compute, all of whom do in a run.
    Ok leave_out() {
        const double steps_per_s_of_all = plan_.computing->steps_per_s_of_all;
        // A run's plan knows no limits of links.
        if (!question_.links.empty() || steps_per_s_of_all <= 0) return {};
        std::vector<PeerRates> peers;
        std::vector<double> slower_ways;  // of the trainers
        double samples_per_s = 0;
        for (const PlanPeer& peer : question_.peers) {
            peers.push_back(peer.rates);
            PeerRates& rates = peers.back();
            rates.contributes = rates.contributes && peer.samples_per_s > 0;
            if (!rates.contributes) continue;
            slower_ways.push_back(std::min(rates.upload_per_s, rates.download_per_s));
            samples_per_s += peer.samples_per_s;
        }
        const auto middle =
            slower_ways.begin() + static_cast<std::ptrdiff_t>(slower_ways.size() / 2);
        std::nth_element(slower_ways.begin(), middle, slower_ways.end());
        std::vector<double> samples;
        std::vector<Candidate> candidates;
        for (std::size_t i = 0; i < peers.size(); ++i) {
            const double slower_way = std::min(peers[i].upload_per_s, peers[i].download_per_s);
            const bool may = peers[i].contributes && slower_way < *middle * slow_line;
            samples.push_back(question_.batch_samples * question_.peers[i].samples_per_s /
                              samples_per_s);
            candidates.push_back(may ? Candidate::yes : Candidate::no);
        }
        DEDLOC_TRY(const LeaveOutAnswer answer,
                   choose_left_out({.peers = peers,
                                    .samples = samples,
                                    .candidates = candidates,
                                    .elements_count = static_cast<double>(question_.elements_count),
                                    .computing_s = question_.batch_samples / samples_per_s,
                                    .delayed = question_.delayed,
                                    .worth_it = leaving_out_worth}));
        if (!answer.leaves_out()) return {};
        LineLeftOut left_out{};
        double others_per_s = 0;  // they compute the whole batch
        for (std::size_t i = 0; i < peers.size(); ++i) {
            if (answer.parts[i] != Part::whole)
                left_out.peers.push_back(i);
            else if (peers[i].contributes)
                others_per_s += question_.peers[i].samples_per_s;
        }
        left_out.step_seconds =
            step_seconds(question_.batch_samples / others_per_s, answer.seconds, question_.delayed);
        left_out.step_seconds_of_all = 1 / steps_per_s_of_all;
        plan_.left_out = std::move(left_out);
        return {};
    }

    void say_left_out() {
        if (!plan_.left_out) return;
        std::vector<std::string> names;
        for (const std::size_t i : plan_.left_out->peers) names.push_back(names_[i]);
        const bool one = names.size() == 1;
        plan_.sentences.push_back(
            fmt::format("A run would leave {} out, as {} too slow for what {}: a step takes {} "
                        "without {} and {} with {} (averaging.leave_out_slow).",
                        some(names),
                        one ? "its line is" : "their lines are",
                        one ? "it brings" : "they bring",
                        duration_text(plan_.left_out->step_seconds),
                        one ? "it" : "them",
                        duration_text(plan_.left_out->step_seconds_of_all),
                        one ? "it" : "them"));
    }

    void compare() {
        plan_.seconds_equal = seconds_equal(plan_.peers, question_.links, question_.elements_count);
        plan_.seconds_server =
            seconds_server(plan_.peers, question_.links, question_.elements_count);
        if (plan_.split.bottleneck == Bottleneck::none) return;
        const auto words = [&](double seconds) {
            if (std::isinf(seconds)) return std::string("be impossible");
            if (seconds < plan_.split.seconds * 1.005) return std::string("take as long");
            const std::string time = duration_text(seconds);
            if (time == duration_text(unlimited)) return "take " + time;
            return fmt::format(
                "take {} ({:.2f} times as long)", time, seconds / plan_.split.seconds);
        };
        plan_.sentences.push_back(fmt::format("Equal parts would {}, one server would {}.",
                                              words(plan_.seconds_equal),
                                              words(plan_.seconds_server)));
        say_computing();
    }

    void say_computing() {
        if (!plan_.computing) return;
        const ComputeChoice& choice = *plan_.computing;
        std::vector<std::string> idle, without_speed;
        for (std::size_t i = 0; i < plan_.peers.size(); ++i)
            if (question_.peers[i].rates.contributes && !choice.computes[i])
                (question_.peers[i].samples_per_s > 0 ? idle : without_speed).push_back(names_[i]);
        say_step(choice);
        say_left_out();
        if (!without_speed.empty())
            plan_.sentences.push_back(
                fmt::format("{} compute{} nothing (samples_per_s = 0) and send{} no gradient.",
                            some(without_speed),
                            without_speed.size() == 1 ? "s" : "",
                            without_speed.size() == 1 ? "s" : ""));
        if (idle.empty()) {
            plan_.sentences.push_back(without_speed.empty() && !plan_.left_out
                                          ? "Every trainer should compute."
                                          : "Every other trainer should compute.");
            return;
        }
        const std::string otherwise =
            choice.steps_per_s_of_all > 0
                ? fmt::format("a step would take {}", duration_text(1 / choice.steps_per_s_of_all))
                : std::string("no step would be possible");
        plan_.sentences.push_back(
            fmt::format("{} should not compute{}: sending {} gradient costs more time than {} "
                        "samples are worth; if everybody did, {}.",
                        some(idle),
                        choice.every_choice_tried ? "" : " (the best choice of those tried)",
                        idle.size() == 1 ? "its" : "their",
                        idle.size() == 1 ? "its" : "their",
                        otherwise));
    }

    void say_step(const ComputeChoice& choice) {
        const double averaging_s = plan_.split.seconds;
        const double computing_s = question_.batch_samples / choice.samples_per_s;
        const std::string step = duration_text(1 / choice.steps_per_s);
        const std::string computing = duration_text(computing_s);
        const std::string averaging = duration_text(averaging_s);
        plan_.sentences.push_back(
            question_.delayed
                ? fmt::format("A step takes {}, as computing ({}) goes on while a step is averaged "
                              "({}), and {} is the slower one.",
                              step,
                              computing,
                              averaging,
                              computing_s > averaging_s ? "computing" : "averaging")
                : fmt::format("A step takes {}: computing ({}), then averaging ({}){}.",
                              step,
                              computing,
                              averaging,
                              if_delayed(computing_s, averaging_s)));
    }

    std::string if_delayed(double computing_s, double averaging_s) const {
        if (question_.delayed_refused) return {};
        return fmt::format("; with averaging.delayed, at the same time, it would take {}",
                           duration_text(step_seconds(computing_s, averaging_s, true)));
    }

    Ok advise() {
        if (plan_.has_aggregators) say_without_aggregators();
        if (plan_.split.bottleneck == Bottleneck::none) return {};
        DEDLOC_TRY(
            plan_.aggregator,
            advise_on_aggregator(
                plan_.peers, question_.links, static_cast<double>(question_.elements_count)));
        const std::string_view one =
            plan_.has_aggregators ? "A further aggregator" : "An aggregator";
        if (plan_.aggregator.rate_per_s <= 0) {
            plan_.sentences.push_back(fmt::format("{} would not help.", one));
            return {};
        }
        plan_.sentences.push_back(
            fmt::format("{} with {} each way would bring the time to {}; more would not help.",
                        one,
                        rate_text(plan_.aggregator.rate_per_s * question_.element_bytes * 8),
                        duration_text(plan_.aggregator.seconds_best)));
        return {};
    }

    void say_without_aggregators() {
        std::vector<PeerRates> others;
        std::vector<std::uint32_t> place(plan_.peers.size());
        for (std::size_t i = 0; i < plan_.peers.size(); ++i) {
            if (question_.peers[i].is_aggregator()) continue;
            place[i] = static_cast<std::uint32_t>(others.size());
            others.push_back(plan_.peers[i]);
        }
        std::vector<LinkLimit> links;
        for (const LinkLimit& link : question_.links)
            if (!question_.peers[link.from].is_aggregator() &&
                !question_.peers[link.to].is_aggregator())
                links.push_back({place[link.from], place[link.to], link.per_s});
        const auto split =
            split_elements(others,
                           question_.elements_count,
                           {.part_elements_min = question_.part_elements_min, .links = links});
        if (!split) {
            plan_.sentences.push_back("Without aggregators it would be impossible.");
            return;
        }
        plan_.seconds_without = split->seconds;
        plan_.sentences.push_back(
            split->seconds > plan_.split.seconds * 1.001
                ? fmt::format("Without aggregators it would take {}.",
                              duration_text(split->seconds))
                : std::string("Without aggregators it would take no longer."));
    }

    const LoadQuestion& question_;
    std::vector<std::string> names_;
    LoadPlan plan_;
};

}  // namespace

Result<LoadPlan> make_plan(const LoadQuestion& question) { return Planner(question).run(); }

std::string rate_text(double bits_per_s) {
    if (bits_per_s >= 0.9995e9) return fmt::format("{:.3g} Gb/s", bits_per_s / 1e9);
    if (bits_per_s >= 0.9995e6) return fmt::format("{:.3g} Mb/s", bits_per_s / 1e6);
    if (bits_per_s >= 0.9995e3) return fmt::format("{:.3g} kb/s", bits_per_s / 1e3);
    return fmt::format("{:.3g} b/s", bits_per_s);
}

}  // namespace dedloc::planner
