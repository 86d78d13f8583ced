#include "dedloc/consensus/peer_score.h"

#include <algorithm>

namespace dedloc::consensus {
namespace {

constexpr std::size_t entries_max = 256;
constexpr std::uint32_t missed_max = 2;     // in a row, while owners wait as for everybody
constexpr std::uint32_t waited_again = 16;  // each so many commits: it may be well, and just slow
constexpr std::uint64_t back_off_min = 4;   // commits
constexpr std::uint64_t back_off_max = 64;

}  // namespace

std::optional<bool> has_reached_others(const RoundPlan& plan,
                                       const Decision& decision,
                                       std::size_t member) {
    const auto of_another = [member](const auto& part) { return part.owner != member; };
    if (std::ranges::none_of(plan.parts, of_another)) return std::nullopt;
    return std::ranges::any_of(decision.parts, [&](const FinishedPart& part) {
        return of_another(part) && part.includes(member);
    });
}

bool PeerScore::learn(const Decision& decision, const RoundPlan* plan) {
    if (plan == nullptr || plan->parts.size() != decision.parts.size()) return false;
    ++commits_;
    // Owners who waited for one that sends nothing are not to blame.
    const bool well = learn_of_members(decision, *plan) && learn_of_owners(decision, *plan);
    std::erase_if(entries_, [](const auto& entry) {
        return entry.second.missed == 0 && entry.second.back_off == 0;
    });
    return well;
}

bool PeerScore::learn_of_members(const Decision& decision, const RoundPlan& plan) {
    bool all_here = true;
    for (std::size_t i = 0; i < plan.members.size(); ++i) {
        const PlanMember& member = plan.members[i];
        if (member.input.is_empty()) continue;
        const auto reached = has_reached_others(plan, decision, i);
        if (!reached) continue;
        if (!*reached) {
            ++entry_of(member.peer).missed;
            all_here = false;
        } else if (const auto found = entries_.find(member.peer); found != entries_.end()) {
            found->second.missed = 0;
        }
    }
    return all_here;
}

bool PeerScore::learn_of_owners(const Decision& decision, const RoundPlan& plan) {
    std::map<std::uint32_t, bool> failed;  // by owner: in all of its parts
    for (std::size_t i = 0; i < plan.parts.size(); ++i) {
        const bool elsewhere = decision.parts[i].owner != plan.parts[i].owner;
        failed.try_emplace(plan.parts[i].owner, true).first->second &= elsewhere;
    }
    const auto count = static_cast<std::size_t>(
        std::ranges::count_if(failed, [](const auto& one) { return one.second; }));
    if (count * 2 > failed.size()) return true;  // so many fail for another reason
    for (const auto& [owner, has_failed] : failed) {
        const PeerId& peer = plan.members.at(owner).peer;
        const auto known = entries_.find(peer);
        if (has_failed) {
            Entry& entry = entry_of(peer);
            entry.back_off = std::clamp(entry.back_off * 2, back_off_min, back_off_max);
            entry.owns_from = commits_ + entry.back_off;
        } else if (known != entries_.end()) {
            known->second.back_off = 0;
        }
    }
    return count == 0;
}

PeerScore::Entry& PeerScore::entry_of(const PeerId& peer) {
    if (!entries_.contains(peer) && entries_.size() >= entries_max)
        entries_.erase(std::ranges::min_element(
            entries_, {}, [](const auto& entry) { return entry.second.newest; }));
    Entry& entry = entries_[peer];
    entry.newest = commits_;
    return entry;
}

bool PeerScore::may_own(const PeerId& peer) const {
    const auto found = entries_.find(peer);
    return found == entries_.end() ||
           (found->second.missed == 0 && commits_ >= found->second.owns_from);
}

std::uint32_t PeerScore::missed(const PeerId& peer) const {
    const auto found = entries_.find(peer);
    return found == entries_.end() ? 0 : found->second.missed;
}

bool PeerScore::may_lead(const PeerId& peer) const { return missed(peer) < missed_max; }

bool PeerScore::is_waited_for(const PeerId& peer) const {
    return missed(peer) < missed_max || missed(peer) % waited_again == 0;
}

}  // namespace dedloc::consensus
