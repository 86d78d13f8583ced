#include "dedloc/averaging/gather_phase.h"

#include <algorithm>

namespace dedloc::averaging {
namespace {

// How often a leader to whom nobody announces gives way, at least, before it goes on alone; and not
// before a quorum would be given up.
constexpr std::uint32_t lonely_turns_max = 3;

// Statuses and the like cost this with each peer, at most; and the part of an average that must
// have gone over the link beside that, before anybody is taken to fetch one.
constexpr double talk_bytes_per_s = 4e3;
constexpr double fetched_least = 1.0 / 32;
constexpr double steps_caught_up = 2;  // by newcomers, while the only voter makes one

// The floor of a step (docs/plan.md): with less than this share of the batch, or with fewer members
// than are missing, those who are missing are waited for as long as a round may take, and for as
// long as they may pass over a leader that has just begun again.
constexpr double batch_share_least = 0.5;

}  // namespace

Task<PhaseEnd> GatherPhase::begin(std::shared_ptr<Attempt> attempt) {
    co_await gather(attempt->base);
    attempt->average_takes = average_takes_;
    // A step of ours would be a lonely one, and its ballot might win.
    if (!others_follow_another(attempt->base) ||
        (lonely_turns_ >= lonely_turns_max &&
         environment_.now() - lonely_since_ >= environment_.options.quorum_timeout))
        co_return PhaseEnd::go_on;
    if (lonely_turns_++ == 0) lonely_since_ = environment_.now();
    co_await parts_.open.pause(environment_.options.announce_interval);
    co_return PhaseEnd::give_up;
}

// Nobody came who brings anything, and yet others are there.
bool GatherPhase::others_follow_another(const consensus::Base& base) const {
    std::set<PeerId> here;
    for (const auto& [peer, announced] : parts_.announcements.fresh(base)) {
        if (announced->announce.input.weight_max() > 0) return false;
        here.insert(peer);
    }
    return std::ranges::any_of(environment_.roster.expected(base),
                               [this, &base, &here](const PeerId& peer) {
                                   return !here.contains(peer) && is_proved(peer, base);
                               });
}

// A peer that trains alone makes steps that others who load its state have to fetch as well: it may
// not make it faster than its link carries it to them, or they would never come. At most a
// deadline, and as its link was used since the step before: none fetches where next to nothing went
// over it.
Duration GatherPhase::time_for_newcomers() {
    tick();
    const links::Served served = served_.take();
    const double average = environment_.options.average_bytes();
    if (served.bytes < served.talk_bytes || served.bytes < average * fetched_least)
        return Duration(0);
    const double averages = served.bytes / average;
    average_takes_ = from_seconds(served.busy_seconds / averages);
    const auto newcomers = static_cast<double>(environment_.roster.newcomers().size());
    const double seconds = steps_caught_up * newcomers * served.seconds / averages;
    return std::min<Duration>(from_seconds(seconds), environment_.options.deadline_max);
}

void GatherPhase::tick() {
    const auto peers = static_cast<double>(environment_.roster.live_trainers().size());
    served_.observe(
        environment_.host.traffic().sent_bytes, environment_.now(), peers * talk_bytes_per_s);
}

// Peers that are here are enough for a step of the collaboration; else it would be one of a few.
// A fragment's contributions are of as many batches as there are fragments.
bool GatherPhase::are_enough(const Gathered& gathered) const {
    if (gathered.missing_proved == 0) return true;
    const auto batch =
        static_cast<double>(environment_.options.batch_target * environment_.options.fragments);
    return gathered.brought > 0 && gathered.here.size() >= gathered.missing_proved &&
           static_cast<double>(gathered.weight) >= batch * batch_share_least;
}

// With few, longer: those who are missing may still wait for a leader that has just failed.
Duration GatherPhase::timeout(bool enough) const {
    const Duration usual = parts_.open.usual_deadline();
    const Duration micro_batch =
        from_seconds(std::clamp(environment_.roster.micro_batch_s(), 0.0, 60.0));
    return std::min<Duration>(
        std::max<Duration>(enough ? usual * 2 / 5 : usual + suspicion_of_leaders, micro_batch * 2),
        environment_.options.deadline_max);
}

// A voter, or one whose samples we have seen in a step.
bool GatherPhase::is_proved(const PeerId& peer, const consensus::Base& base) const {
    if (base.barring(peer) != nullptr) return false;
    if (base.protection.rules.on && !base.weighs(peer)) return false;
    return base.is_voter(peer) || environment_.roster.has_contributed(peer);
}

// Have the others waited for longer than an answer takes?
bool GatherPhase::delays_others() const {
    return since_ && environment_.now() > *since_ + parts_.timeouts.answer();
}

bool GatherPhase::may_be_waited_for(const PeerId& peer, const consensus::Base& base) {
    if (base.barring(peer) != nullptr) return false;
    if (is_proved(peer, base)) return true;
    if (!environment_.roster.is_believed(peer)) return false;
    // A member that weighs nothing must not delay the others.
    const bool weightless = base.protection.rules.on && !base.weighs(peer);
    if (weightless && delays_others()) return false;
    return newcomers_.waits_for(peer, base.previous, base.voters.size(), environment_.now());
}

GatherPhase::Gathered GatherPhase::assess(const consensus::Base& base) {
    Gathered gathered;
    for (const auto& [peer, announced] : parts_.announcements.fresh(base)) {
        const std::uint64_t brought = announced->announce.input.weight_max();
        gathered.brought += brought;
        gathered.weighs |= brought > 0 && base.weighs(peer);
    }
    const std::uint64_t own = parts_.open.input() ? parts_.open.input()->input.weight_max() : 0;
    gathered.weight = gathered.brought + own;
    gathered.weighs |= own > 0 && base.weighs(environment_.me());
    gathered.weighs = gathered.weighs && makes_a_step(base);
    for (const auto& [peer, announced] : parts_.announcements.all())
        if (announced.announce.previous == base.previous && !announced.announce.aggregator) {
            gathered.here.insert(peer);
            if (!delays_others()) newcomers_.came_in_time(peer);
        }
    for (const PeerId& peer : environment_.roster.expected(base))
        if (!gathered.here.contains(peer) && parts_.announcements.is_waited_for(peer) &&
            may_be_waited_for(peer, base))
            gathered.missing.push_back(peer);
    // A peer that may vote finds room.
    if (gathered.here.size() + 1 >= environment_.options.members_max)
        std::erase_if(gathered.missing,
                      [&base](const PeerId& peer) { return !base.is_voter(peer); });
    gathered.missing_proved = static_cast<std::size_t>(std::ranges::count_if(
        gathered.missing, [&](const PeerId& peer) { return is_proved(peer, base); }));
    if (gathered.brought == 0) find_others(gathered, base);
    return gathered;
}

// A robust step has a minimum.
bool GatherPhase::makes_a_step(const consensus::Base& base) const {
    if (!base.protection.rules.on || leaves_out_minimum(environment_.options.bugs, base))
        return true;
    consensus::RoundPlan plan;
    const auto add = [&](const PeerId& peer, const consensus::MemberInput& input) {
        consensus::PlanMember member;
        member.peer = peer;
        member.input = input;
        member.weightless = !base.weighs(peer);
        plan.members.push_back(std::move(member));
    };
    for (const auto& [peer, announced] : parts_.announcements.fresh(base))
        add(peer, announced->announce.input);
    if (parts_.open.input()) add(environment_.me(), parts_.open.input()->input);
    return base.protection.check_minimum(plan, /*parts=*/{}, base.number, base.voters).has_value();
}

// Others live, but none who brings anything has announced, and these are not known to stand here:
// they are about to, or will be when they have the state.
void GatherPhase::find_others(Gathered& gathered, const consensus::Base& base) {
    const std::vector<PeerId> loading = environment_.roster.newcomers();
    gathered.loading = !loading.empty();
    for (const PeerId& peer : environment_.roster.live_trainers()) {
        const bool loads = std::ranges::find(loading, peer) != loading.end();
        if (!loads) newcomers_.has_state(peer);
        if (gathered.here.contains(peer) || base.barring(peer) != nullptr) continue;
        if (loads ? newcomers_.waits_while_loading(peer, environment_.now())
                  : may_be_waited_for(peer, base))
            gathered.lonely = true;
    }
}

// The others are told who makes them wait.
void GatherPhase::give_up_waiting(const Gathered& gathered, Duration waited) {
    for (const PeerId& peer : gathered.missing) {
        parts_.announcements.do_not_wait_for(peer);
        environment_.teller.tell(
            events::WaitedInVain{},
            peer,
            fmt::format("the round began {:.1f} s later for its sake, and it did not come; it is "
                        "not waited for until it does",
                        to_seconds(waited)));
    }
}

Task<void> GatherPhase::gather(consensus::Base base) {
    environment_.listener.round_wanted();
    // A leader that brings nothing may have looked on for long when the first contribution comes:
    // the others are not late before that.
    since_.reset();
    bool was_lonely = false;
    // While another one may lead as well, nobody is held up.
    average_takes_ = Duration(0);
    const Duration of_newcomers = base.voters.size() == 1 ? time_for_newcomers() : Duration(0);
    for (;;) {
        const Gathered gathered = assess(base);
        if (gathered.weight == 0)
            since_.reset();
        else if (!since_)
            since_ = environment_.now();
        // Newcomers that load the state are waited for as long as our link is busy with it.
        const bool loading = gathered.loading && of_newcomers > Duration(0);
        const bool some = !gathered.missing.empty() || gathered.lonely;
        if (!some && !loading && parts_.open.input() && gathered.weighs) co_return;
        // The first newcomer is there, and the next ones may be about to come.
        const bool lonely = gathered.lonely || loading;
        if (was_lonely && !lonely && since_) since_ = environment_.now();
        // Newcomers alone make no step; but those who follow us must not take us for gone.
        const bool waits = some || !parts_.open.input() || !gathered.weighs;
        const bool enough = gathered.weighs && are_enough(gathered);
        const Duration usual = waits ? timeout(enough) : Duration(0);
        was_lonely = lonely && of_newcomers > usual;
        const Duration time = lonely ? std::max(usual, of_newcomers) : usual;
        limit_ = since_ ? *since_ + time : TimePoint::never();
        if (environment_.now() >= limit_) {
            give_up_waiting(gathered, time);
            co_return;
        }
        const TimePoint next = std::min(limit_, environment_.now() + 200ms);
        (void)co_await parts_.open.changed().wait_until(environment_.node.clock, next);
        // A machine that slept has waited for nobody meanwhile: what they sent is still to be read.
        if (since_) since_ = *since_ + std::max(environment_.now() - next, Duration(0));
    }
}

}  // namespace dedloc::averaging
