#include "dedloc/averaging/round_planner.h"

#include <algorithm>
#include <cmath>

#include "dedloc/allreduce/chunking.h"
#include "dedloc/allreduce/sparse_sums.h"
#include "dedloc/links/partition_detector.h"
#include "dedloc/links/rates.h"
#include "dedloc/planner/grid.h"
#include "dedloc/planner/left_out.h"
#include "dedloc/planner/split.h"

namespace dedloc::averaging {
namespace {

// How many parts an owner's share has at least, if the round takes long enough.
constexpr double pieces_wanted_max = 48;
constexpr double part_seconds_min = 0.05;
constexpr std::uint64_t piece_elements_min = 8192;
constexpr double rate_factor = 1000;  // between the usual rate and what is believed
// Bytes per second; what is said beyond is no link's.
constexpr double rate_least = 100;
constexpr double rate_most = 1e12;
constexpr std::size_t lines_told_max = 32;
constexpr std::size_t left_out_told_max = 8;
constexpr double megabits = 8e-6;   // of bytes
constexpr double megabytes = 1e-6;  // of bytes
constexpr double worth_it = 0.95;   // of the round's time without aggregators; more: without them

// Measured, and of a link that there may be.
bool is_rate(double claimed) { return claimed >= rate_least && claimed <= rate_most; }

// The median of the uplinks that were measured: what is assumed of the others.
double usual_rate(const std::map<PeerId, Announce>& announces, double if_none) {
    std::vector<double> measured;
    for (const auto& [peer, announce] : announces)
        if (!announce.aggregator && is_rate(announce.upload_bytes_per_s))
            measured.push_back(announce.upload_bytes_per_s);
    if (measured.empty()) return if_none;
    const auto middle = measured.begin() + static_cast<std::ptrdiff_t>(measured.size() / 2);
    std::nth_element(measured.begin(), middle, measured.end());
    return *middle;
}

// The full line of a plan, or the first that was measured and carries as much: a line that nobody
// has measured counts as the usual one, which is somebody else's, and people want to know whose.
std::size_t measured_like(const std::map<PeerId, Announce>& announces,
                          const std::vector<planner::PeerRates>& rates,
                          std::size_t full,
                          bool up) {
    const auto rate = [&](std::size_t i) {
        return up ? rates[i].upload_per_s : rates[i].download_per_s;
    };
    std::size_t found = rates.size();
    std::size_t place = 0;
    for (const auto& [peer, announce] : announces) {
        const double claimed = up ? announce.upload_bytes_per_s : announce.download_bytes_per_s;
        if (is_rate(claimed) && place == full) return full;
        if (is_rate(claimed) && rate(place) == rate(full)) found = std::min(found, place);
        ++place;
    }
    return found < rates.size() ? found : full;
}

// A peer's own claim: nobody's link is beyond all measure of the others'.
double plausible_rate(double claimed, double usual) {
    if (!is_rate(claimed)) return usual;
    return std::clamp(claimed, usual / rate_factor, usual * rate_factor);
}

std::string describe(const consensus::RoundPlan& plan) {
    const auto aggregators = std::ranges::count_if(
        plan.members, [](const consensus::PlanMember& member) { return member.aggregator; });
    std::string text =
        fmt::format("step {}: {} members{}, {} parts",
                    plan.instance.step + 1,
                    plan.members.size() - static_cast<std::size_t>(aggregators),
                    aggregators == 0 ? "" : fmt::format(" and {} aggregators", aggregators),
                    plan.parts.size());
    constexpr std::size_t members_told_max = 8;
    if (plan.members.size() > members_told_max || plan.parts.empty()) return text;
    std::vector<double> shares(plan.members.size(), 0.0);
    for (const consensus::PlanPart& part : plan.parts)
        shares[part.owner] += 100.0 * static_cast<double>(part.count) /
                              static_cast<double>(consensus::moved_range(plan).count);
    text += " (";
    for (std::size_t i = 0; i < shares.size(); ++i)
        text += fmt::format("{}{:.0f}", i == 0 ? "" : " + ", shares[i]);
    return text + " %)";
}

// As events::PlanMade::lines has them.
std::string lines_of(const consensus::RoundPlan& plan,
                     const std::vector<planner::PeerRates>& rates,
                     double element_bytes) {
    std::string text;
    for (std::size_t i = 0; i < std::min(rates.size(), lines_told_max); ++i)
        text += fmt::format("{}{}={:.4g}/{:.4g}{}{}",
                            i == 0 ? "" : " ",
                            plan.members[i].peer.short_text(),
                            rates[i].upload_per_s * element_bytes * megabits,
                            rates[i].download_per_s * element_bytes * megabits,
                            plan.members[i].aggregator ? "a" : "",
                            rates[i].owns_allowed ? "" : "n");
    return text;
}

std::string first_of(const std::vector<PeerId>& left_out) {
    std::string text;
    for (std::size_t i = 0; i < std::min(left_out.size(), left_out_told_max); ++i)
        text += (i == 0 ? "" : " ") + left_out[i].text();
    return text;
}

std::string_view word_for(planner::Bottleneck bottleneck) {
    switch (bottleneck) {
        case planner::Bottleneck::none:
            return "none";
        case planner::Bottleneck::upload:
            return "upload";
        case planner::Bottleneck::download:
            return "download";
        case planner::Bottleneck::link:
            return "link";
    }
    return {};
}

struct Division {
    std::map<PeerId, Announce> announces;
    std::vector<bool> may_own;
    planner::Split split;
    std::string gain{};  // what the aggregators are for, in words
    std::optional<planner::Grid> grid{};
};

class RoundPlanner {
  public:
    explicit RoundPlanner(const RoundQuestion& question) : question_(question) {}
    Result<PlannedRound> plan() const;

  private:
    events::PlanMade event_of(const consensus::RoundPlan& plan, const Division& division) const;
    std::vector<planner::PeerRates> rates_of(const std::map<PeerId, Announce>& announces) const;
    Result<Division> divide(const std::map<PeerId, Announce>& announces) const;
    Result<Division> divide_with_aggregators(std::map<PeerId, Announce> announces) const;
    Result<Division> divide_into_groups(const std::map<PeerId, Announce>& announces) const;
    Result<Division> divide_all(std::map<PeerId, Announce> announces) const;
    std::string leave_out_slow(std::map<PeerId, Announce>& announces,
                               std::vector<PeerId>& left_out) const;
    Result<planner::LeaveOutAnswer> whom_to_leave_out(
        const std::map<PeerId, Announce>& announces) const;
    void set_parts(consensus::RoundPlan& plan,
                   const std::vector<std::uint64_t>& shares,
                   double seconds) const;
    void set_parts(consensus::RoundPlan& plan, const planner::Grid& grid) const;
    std::uint64_t pieces_of(std::uint64_t share,
                            std::size_t shares_count,
                            double seconds,
                            bool in_grid) const;

    void expect_averages(std::vector<planner::PeerRates>& rates) const;
    void set_sum_codec(consensus::RoundPlan& plan) const;
    consensus::ElementRange moved() const {
        return question_.options.range_of(question_.base.instance.step);
    }

    const RoundQuestion& question_;
};

void RoundPlanner::expect_averages(std::vector<planner::PeerRates>& rates) const {
    const RoundOptions& options = question_.options;
    const std::size_t contributors = planner::contributors_in(rates);
    planner::expect_averages(rates,
                             codec::average_cost(options.codec, contributors, options.gather_max),
                             codec::adds_sums(options.codec, contributors, options.gather_max));
}

// Where only a leader may own that brings nothing, it gathers.
void RoundPlanner::set_sum_codec(consensus::RoundPlan& plan) const {
    const auto codec = question_.options.sum_codec(allreduce::contributors_in(plan));
    if (!codec || !allreduce::owners_bring_something(plan)) return;
    plan.sum_codec = static_cast<std::uint32_t>(*codec);
    std::erase_if(plan.standby,
                  [&](std::uint32_t member) { return !allreduce::brings_something(plan, member); });
}

// An average goes back while later parts still come, and when the last part has come its average is
// still to go back: the more parts, the shorter that end. Fewer where a part would take no time.
void RoundPlanner::set_parts(consensus::RoundPlan& plan,
                             const std::vector<std::uint64_t>& shares,
                             double seconds) const {
    for (std::uint32_t i = 0; i < shares.size(); ++i) {
        const std::uint64_t pieces =
            pieces_of(shares[i], shares.size(), seconds, /*in_grid=*/false);
        allreduce::cut_range(plan, shares[i], allreduce::cuts_for(pieces, seconds), {i});
    }
}

// The owners of a column take turns, so that sums go to all of them at all times.
void RoundPlanner::set_parts(consensus::RoundPlan& plan, const planner::Grid& grid) const {
    plan.groups = grid.groups;
    plan.group_of = grid.group_of;
    plan.collectors = grid.collectors;
    for (std::size_t first = 0; first < grid.collectors.size(); first += grid.groups) {
        const std::vector<std::uint32_t> owners(
            plan.collectors.begin() + static_cast<std::ptrdiff_t>(first),
            plan.collectors.begin() + static_cast<std::ptrdiff_t>(first + grid.groups));
        std::uint64_t range = 0;
        for (const std::uint32_t owner : owners) range += grid.part_elements[owner];
        const std::uint64_t pieces =
            pieces_of(range / owners.size() + 1, grid.collectors.size(), grid.seconds, true);
        allreduce::cut_range(plan, range, allreduce::cuts_for(pieces, grid.seconds), owners);
    }
}

// The pieces of a share, when so many peers have one: in a grid its collectors, else all members.
std::uint64_t RoundPlanner::pieces_of(std::uint64_t share,
                                      std::size_t shares_count,
                                      double seconds,
                                      bool in_grid) const {
    const auto many = static_cast<double>(consensus::parts_max / (2 * shares_count));
    const auto wanted = static_cast<std::uint64_t>(
        std::clamp(seconds / part_seconds_min, 1.0, std::min(pieces_wanted_max, many)));
    const std::uint64_t most =
        allreduce::longest_part(question_.options, question_.options.codec, shares_count, in_grid);
    const std::uint64_t fewest = (share + most - 1) / most;
    return std::max(fewest, std::min(wanted, share / std::min(piece_elements_min, most)));
}

std::vector<planner::PeerRates> RoundPlanner::rates_of(
    const std::map<PeerId, Announce>& announces) const {
    std::map<PeerId, std::vector<PeerId>> unreachable;
    for (const auto& [peer, announce] : announces) unreachable[peer] = announce.unreachable;
    const std::set<PeerId> partitioned = links::partitioned_peers(unreachable);
    std::vector<planner::PeerRates> rates;
    const double usual = usual_rate(announces, question_.options.rate_unknown);
    const double element_bytes = question_.options.element_bytes();
    for (const auto& [peer, announce] : announces) {
        const auto per_s = [&](double bytes) {
            return plausible_rate(bytes, usual) / element_bytes;
        };
        planner::PeerRates rate;
        rate.upload_per_s = per_s(announce.upload_bytes_per_s);
        rate.download_per_s = per_s(announce.download_bytes_per_s);
        rate.contributes = !announce.input.is_empty();
        rate.receives = !announce.aggregator;
        // A peer that cannot be dialled cannot be sure that every member has a connection to it; a
        // newcomer that weighs nothing must not be able to delay the others.
        const bool trusted = announce.aggregator || question_.base.weighs(peer);
        rate.owns_allowed = announce.dialable && !announce.leaving && trusted &&
                            !partitioned.contains(peer) && !question_.not_owners.contains(peer);
        rates.push_back(rate);
    }
    expect_averages(rates);
    std::vector<double*> up;
    std::vector<double*> down;
    for (planner::PeerRates& rate : rates) {
        up.push_back(&rate.upload_per_s);
        down.push_back(&rate.download_per_s);
    }
    links::take_as_alike(up);
    links::take_as_alike(down);
    return rates;
}

// Errors: not_found: nobody brings anything; bad_input: too few may own for a grid.
Result<Division> RoundPlanner::divide_into_groups(
    const std::map<PeerId, Announce>& announces) const {
    const std::vector<planner::PeerRates> rates = rates_of(announces);
    planner::GridOptions options;
    options.group_max = question_.options.group_max;
    options.part_elements_min = question_.options.part_elements_min;
    options.sums_cost = sizeof(float) / question_.options.element_bytes();
    DEDLOC_TRY(planner::Grid grid, planner::make_grid(rates, moved().count, options));
    Division division{.announces = announces, .may_own = {}, .split = {}, .grid = {}};
    for (const planner::PeerRates& rate : rates) division.may_own.push_back(rate.owns_allowed);
    division.split.seconds = grid.seconds;
    division.gain = fmt::format(
        "; {} groups, {} columns", grid.groups, grid.collectors.size() / std::max(grid.groups, 1u));
    division.grid = std::move(grid);
    return division;
}

// A grid where they are more than a group holds; it takes the aggregators there are. With fewer who
// may own than there would be groups, one group after all: the few owners have everybody's share to
// move in either, and nobody is left out.
Result<Division> RoundPlanner::divide_all(std::map<PeerId, Announce> announces) const {
    const auto trainers = static_cast<std::size_t>(std::ranges::count_if(
        announces, [](const auto& entry) { return !entry.second.aggregator; }));
    if (trainers > question_.options.group_max && question_.options.may_have_grids()) {
        auto grid = divide_into_groups(announces);
        if (grid) return grid;
    }
    return divide_with_aggregators(std::move(announces));
}

Result<Division> RoundPlanner::divide(const std::map<PeerId, Announce>& announces) const {
    std::vector<planner::PeerRates> rates = rates_of(announces);
    if (std::none_of(rates.begin(), rates.end(), [](const auto& rate) { return rate.contributes; }))
        return make_error(ErrorKind::not_found, "nobody has anything to average");
    planner::SplitOptions split_options;
    split_options.part_elements_min = question_.options.part_elements_min;
    auto split = planner::split_elements(rates, moved().count, split_options);
    if (!split) {  // nobody may own: the leader does, as everybody who announced reached it
        std::size_t place = 0;
        for (const auto& [peer, announce] : announces)
            rates[place++].owns_allowed = peer == question_.me;
        split = planner::split_elements(rates, moved().count, split_options);
    }
    if (!split) return std::move(split).error();
    Division division{.announces = announces, .may_own = {}, .split = *std::move(split)};
    for (const planner::PeerRates& rate : rates) division.may_own.push_back(rate.owns_allowed);
    return division;
}

// Aggregators take part where the round becomes faster by as much as they are worth: each is one
// more machine that may fail. Those who would own nothing stay away.
Result<Division> RoundPlanner::divide_with_aggregators(std::map<PeerId, Announce> announces) const {
    auto with = divide(announces);
    std::map<PeerId, Announce> trainers = announces;
    std::erase_if(trainers, [](const auto& entry) { return entry.second.aggregator; });
    if (trainers.size() == announces.size()) return with;
    auto without = divide(trainers);
    if (!with) return without;
    double share = 0;
    std::size_t place = 0;
    std::size_t helping = 0;
    for (const auto& [peer, announce] : with->announces) {
        const std::uint64_t owned = with->split.part_elements[place++];
        if (!announce.aggregator) continue;
        if (owned == 0)
            announces.erase(peer);
        else
            ++helping;
        share += static_cast<double>(owned);
    }
    if (without && (helping == 0 || with->split.seconds >= without->split.seconds * worth_it))
        return without;
    with = divide(announces);
    if (with && without)
        with->gain = fmt::format(
            "; {} aggregators take {:.0f} %: {:.3g} s predicted instead of "
            "{:.3g} s",
            helping,
            100 * share / static_cast<double>(moved().count),
            with->split.seconds,
            without->split.seconds);
    return with;
}

// Not the leader, as everybody waits for it anyhow, nor whose link is not much slower than the
// leader's: where few may own, fewer contributions make the round shorter, whosever they are. Nor
// who leaves after this round, nor whose link nobody has measured. Whoever
// follows by itself has the averages later: never so many voters that the rest would be no
// majority.
Result<planner::LeaveOutAnswer> RoundPlanner::whom_to_leave_out(
    const std::map<PeerId, Announce>& announces) const {
    const std::vector<planner::PeerRates> rates = rates_of(announces);
    const auto slower_way = [](const planner::PeerRates& rate) {
        return std::min(rate.upload_per_s, rate.download_per_s);
    };
    const auto me = std::distance(announces.begin(), announces.find(question_.me));
    DEDLOC_CHECK(static_cast<std::size_t>(me) < rates.size(), "the leader announces to itself");
    const double leaders = slower_way(rates[static_cast<std::size_t>(me)]);
    auto rate = rates.begin();
    std::vector<double> samples;
    std::vector<planner::Candidate> candidates;
    std::vector<bool> votes;
    for (const auto& [peer, announce] : announces) {
        const bool may = slower_way(*rate++) < leaders * planner::slow_line &&
                         !announce.aggregator && !announce.leaving &&
                         announce.upload_bytes_per_s > 0 && announce.download_bytes_per_s > 0;
        samples.push_back(static_cast<double>(announce.input.weight_max()));
        candidates.push_back(may ? planner::Candidate::yes : planner::Candidate::no);
        votes.push_back(question_.base.voter_incarnation(peer) == announce.incarnation);
    }
    planner::LeaveOutQuestion question{.peers = rates,
                                       .samples = samples,
                                       .candidates = candidates,
                                       .elements_count = static_cast<double>(moved().count),
                                       .computing_s = question_.computing_s,
                                       .delayed = question_.options.delayed,
                                       .worth_it = planner::leaving_out_worth};
    DEDLOC_TRY(planner::LeaveOutAnswer answer, planner::choose_left_out(question));
    std::size_t voters = 0;
    for (std::size_t i = 0; i < votes.size(); ++i)
        if (votes[i] && answer.parts[i] != planner::Part::none) ++voters;
    if (voters >= question_.base.quorum()) return answer;
    std::size_t place = 0;
    for (const auto& [peer, announce] : announces) {
        planner::Candidate& candidate = candidates[place++];
        if (question_.base.is_voter(peer) && candidate == planner::Candidate::yes)
            candidate = planner::Candidate::if_it_receives;
    }
    return planner::choose_left_out(question);
}

// Empties or erases their announcements; what is said of it.
std::string RoundPlanner::leave_out_slow(std::map<PeerId, Announce>& announces,
                                         std::vector<PeerId>& left_out) const {
    if (!question_.options.leave_out_slow) return {};
    const auto answer = whom_to_leave_out(announces);
    if (!answer || !answer->leaves_out()) return {};
    std::size_t place = 0;
    for (auto entry = announces.begin(); entry != announces.end();) {
        const planner::Part part = answer->parts[place++];
        if (part == planner::Part::whole) {
            ++entry;
            continue;
        }
        left_out.push_back(entry->first);
        entry->second.input = {};
        entry = part == planner::Part::none ? announces.erase(entry) : std::next(entry);
    }
    return fmt::format(
        "; {} left out, too slow for what they bring: {:.3g} s predicted instead of "
        "{:.3g} s",
        left_out.size(),
        answer->seconds,
        answer->seconds_of_all);
}

// Why the round is planned to take as long as it does. In a grid the planner names no single link.
// Else the split is over the plan's members, in their order.
events::PlanMade RoundPlanner::event_of(const consensus::RoundPlan& plan,
                                        const Division& division) const {
    const double element_bytes = question_.options.element_bytes();
    const std::vector<planner::PeerRates> rates = rates_of(division.announces);
    events::PlanMade made{.predicted_s = plan.predicted_ms / 1e3, .left_out = plan.left_out.size()};
    made.vector_mb = static_cast<double>(moved().count) * element_bytes * megabytes;
    made.lines = lines_of(plan, rates, element_bytes);
    if (question_.last_came) {
        made.last_peer = question_.last_came->peer.text();
        made.last_s = question_.last_came->seconds;
    }
    if (!plan.left_out.empty()) made.left_out_peers = first_of(plan.left_out);
    if (division.grid) return made;
    const planner::Split& split = division.split;
    made.bottleneck = word_for(split.bottleneck);
    if (split.bottleneck == planner::Bottleneck::none) return made;
    const bool up = split.bottleneck == planner::Bottleneck::upload;
    const std::size_t slowest = measured_like(division.announces, rates, split.bottleneck_peer, up);
    const double bytes_per_s =
        element_bytes * (up ? rates[slowest].upload_per_s : rates[slowest].download_per_s);
    made.bottleneck_peer = plan.members[slowest].peer.text();
    if (bytes_per_s > 0) made.bottleneck_mbit = bytes_per_s * megabits;
    return made;
}

Result<PlannedRound> RoundPlanner::plan() const {
    const consensus::Base& base = question_.base;
    consensus::RoundPlan plan;
    plan.run = base.run;
    plan.instance = base.instance;
    plan.ballot = question_.ballot;
    plan.leader = question_.me;
    plan.previous = base.previous;
    plan.state = base.state.value_or(Digest{});
    plan.reducer = question_.options.reducer_number();
    plan.codec = static_cast<std::uint32_t>(question_.options.codec);
    plan.bounded_count = question_.options.bounded_count;
    plan.tau = base.protection.tau();
    plan.length_max = base.protection.length_max();
    if (question_.options.fragments > 1) plan.whole_count = question_.options.vector_count;
    std::map<PeerId, Announce> announces = question_.announces;
    const std::string without = leave_out_slow(announces, plan.left_out);
    DEDLOC_TRY(const Division division, divide_all(std::move(announces)));
    for (const auto& [peer, announce] : division.announces)
        plan.members.push_back({peer,
                                announce.incarnation,
                                announce.aggregator ? consensus::MemberInput{} : announce.input,
                                announce.dialable,
                                announce.aggregator,
                                !announce.aggregator && !question_.base.weighs(peer),
                                announce.checks,
                                announce.aggregator ? 0 : base.protection.trust_of(peer)});
    if (division.grid)
        set_parts(plan, *division.grid);
    else
        set_parts(plan, division.split.part_elements, division.split.seconds);
    for (consensus::PlanPart& part : plan.parts) part.offset += moved().offset;
    allreduce::align_to_chunks(plan, question_.options);
    allreduce::cut_by_codec(plan, question_.options);
    for (std::uint32_t i = 0; i < plan.members.size(); ++i)
        if (division.may_own[i] && !plan.leaves_out(plan.members[i].peer))
            plan.standby.push_back(i);
    set_sum_codec(plan);
    const int hops = division.grid ? 2 : 1;  // each way
    // While links are not measured yet we know how long ours took to bring newcomers here. Where
    // that is no longer than the shortest round, short attempts find out who is slow.
    const bool slow =
        plan.members.size() > 1 && question_.average_takes > question_.options.deadline_min;
    const Duration as_served = slow ? question_.average_takes * 4 / 3 : Duration(0);
    const Duration whole = std::clamp<Duration>(
        std::max({question_.usual_round, from_seconds(division.split.seconds), as_served}) * 3,
        std::min(question_.options.deadline_min * hops, question_.options.deadline_max),
        question_.options.deadline_max);
    plan.round_ms = static_cast<std::uint32_t>(whole / 1ms);
    plan.reduce_ms = plan.round_ms / 2;
    plan.predicted_ms = static_cast<std::uint32_t>(
        std::min(division.split.seconds * 1e3, static_cast<double>(plan.round_ms)));
    events::PlanMade event = event_of(plan, division);
    std::string text = describe(plan) + division.gain + without;
    return PlannedRound{std::move(plan), std::move(event), std::move(text)};
}

}  // namespace

Result<PlannedRound> plan_round(const RoundQuestion& question) {
    return RoundPlanner(question).plan();
}

}  // namespace dedloc::averaging
