#include "dedloc/validation/silent_validators.h"

#include <algorithm>

#include "dedloc/robust/recheck.h"
#include "dedloc/wire/message.h"

namespace dedloc::validation {

using averaging::Evidence;
using averaging::Observation;
using averaging::SignedBy;
using averaging::Testimony;

void SilentValidators::answered(const PeerId& validator, std::uint64_t newest) {
    missed_.erase(validator);
    answered_[validator] = newest;
    if (answered_.size() > memory_max)
        answered_.erase(
            std::ranges::min_element(answered_, {}, [](const auto& each) { return each.second; }));
}

bool SilentValidators::missed(const PeerId& validator, std::uint64_t step) {
    const auto last = answered_.find(validator);
    if (last != answered_.end() && last->second >= step) return false;
    const auto [first, is_new] = missed_.try_emplace(validator, step);
    if (missed_.size() > memory_max) missed_.erase(missed_.begin());
    return !is_new && first->second < step;
}

std::optional<Evidence> SilentValidators::take(const security::Verifier& verifier,
                                               const Bytes& plan_bytes,
                                               const consensus::RoundPlan& plan,
                                               const SignedBy& statement,
                                               const std::vector<consensus::Voter>& voters) {
    const auto testimony = wire::decode<Testimony>(statement.payload);
    if (!testimony || testimony->observation != Observation::unanswered ||
        testimony->plan != consensus::decision_digest(plan_bytes) ||
        testimony->subject >= plan.members.size() || statement.member >= plan.members.size() ||
        statement.member == testimony->subject)
        return std::nullopt;
    const PeerId& witness = plan.members[statement.member].peer;
    if (std::ranges::find(voters, witness, &consensus::Voter::peer) == voters.end() ||
        !verifier.verify(
            witness, averaging::testimony_domain, statement.payload, statement.signature))
        return std::nullopt;
    auto about = std::ranges::find_if(about_, [&](const About& each) {
        return each.plan == testimony->plan && each.subject == testimony->subject;
    });
    if (about == about_.end()) {
        if (about_.size() == memory_max) about_.pop_front();
        about_.push_back({testimony->plan, testimony->subject, {}, false});
        about = std::prev(about_.end());
    }
    about->statements.insert_or_assign(statement.member, statement);
    if (about->told || about->statements.size() < robust::findings_needed(voters.size()))
        return std::nullopt;
    about->told = true;
    Evidence evidence;
    evidence.plan = plan_bytes;
    for (const auto& [member, said] : about->statements) evidence.statements.push_back(said);
    return evidence;
}

}  // namespace dedloc::validation
