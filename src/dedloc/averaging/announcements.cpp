#include "dedloc/averaging/announcements.h"

#include <algorithm>

namespace dedloc::averaging {

// For a plan of ours. A peer that may vote has a place before one that may not: it stays a member,
// and the same ones are left out of every round.
bool Announcements::make_room_for(const PeerId& from, bool aggregator) {
    if (announced_.contains(from)) return true;
    const auto alike =
        static_cast<std::size_t>(std::ranges::count_if(announced_, [aggregator](const auto& entry) {
            return entry.second.announce.aggregator == aggregator;
        }));
    if (aggregator) return alike < aggregators_max;
    if (alike + 1 < environment_.options.members_max) return true;  // one is our own
    const consensus::Base& base = environment_.ledger.base();
    if (!base.is_voter(from)) return false;
    const auto other = std::ranges::find_if(announced_, [&base](const auto& entry) {
        return !entry.second.announce.aggregator && !base.is_voter(entry.first);
    });
    if (other == announced_.end()) return false;
    not_waited_for_.insert(other->first);
    announced_.erase(other);
    return true;
}

bool Announcements::keep(const PeerId& from, Announce announce) {
    if (announce.aggregator && announce.leaving) {
        announced_.erase(from);
        return true;
    }
    if (!make_room_for(from, announce.aggregator)) {
        not_waited_for_.insert(from);
        return false;
    }
    const TimePoint now = environment_.now();
    const auto before = announced_.find(from);
    const bool brought = before != announced_.end() &&
                         before->second.announce.previous == announce.previous &&
                         !before->second.announce.input.is_empty();
    const TimePoint brought_at = brought ? before->second.brought_at : now;
    announced_[from] = Announced{std::move(announce), now, brought_at};
    not_waited_for_.erase(from);
    return true;
}

std::vector<std::pair<PeerId, const Announced*>> Announcements::fresh(const consensus::Base& base,
                                                                      bool of_aggregators) const {
    const Duration age_max =
        std::max<Duration>(environment_.options.announce_interval * announcement_age_intervals,
                           timeouts_.two_answers());
    std::vector<std::pair<PeerId, const Announced*>> fresh;
    for (const auto& [peer, announced] : announced_)
        if (announced.announce.previous == base.previous &&
            announced.announce.aggregator == of_aggregators &&
            environment_.now() - announced.at < age_max)
            fresh.emplace_back(peer, &announced);
    return fresh;
}

void Announcements::keep_only(const Digest& previous) {
    std::erase_if(announced_, [&previous](const auto& entry) {
        return entry.second.announce.previous != previous;
    });
}

bool Announcements::offer_something() const {
    return std::ranges::any_of(
        announced_, [](const auto& entry) { return !entry.second.announce.input.is_empty(); });
}

bool Announcements::is_leaving(const PeerId& peer) const {
    const auto found = announced_.find(peer);
    return found != announced_.end() && found->second.announce.leaving;
}

std::map<PeerId, consensus::Voter> Announcements::survivors(const consensus::Base& base,
                                                            const std::set<PeerId>& refused) const {
    std::map<PeerId, consensus::Voter> survivors;
    for (const auto& [peer, announced] : announced_)
        if (announced.announce.previous == base.previous && !refused.contains(peer) &&
            !announced.announce.aggregator &&
            environment_.now() - announced.at < timeouts_.two_answers())
            survivors[peer] = {peer, announced.announce.incarnation, announced.announce.dialable};
    return survivors;
}

void Announcements::wait_for_members(const consensus::RoundPlan& plan) {
    for (const consensus::PlanMember& member : plan.members) not_waited_for_.erase(member.peer);
}

}  // namespace dedloc::averaging
