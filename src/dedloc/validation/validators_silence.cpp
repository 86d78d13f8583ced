// The part of Validators about those who do not answer (silent_validators.h).

#include <algorithm>
#include <cmath>

#include "dedloc/averaging/pending_orders.h"
#include "dedloc/validation/validators.h"
#include "dedloc/wire/message.h"

namespace dedloc::validation {

// The validator's own contribution took one step's time; this is how much more it has to compute.
std::uint64_t GradientValidators::timeout_with(const Round& round,
                                               std::uint32_t target,
                                               const OpenRecheck& of) const {
    const auto place = place_of(*round.plan, of.validator);
    const auto own = static_cast<double>(round.plan->members[*place].input.weight_max());
    const auto all = static_cast<double>(round.plan->members[target].input.weight_max());
    constexpr double as_much_max = 10;
    return missing_after +
           static_cast<std::uint64_t>(std::ceil(std::min(all / std::max(own, 1.0), as_much_max)));
}

// The peer was there, so it could have answered.
bool GradientValidators::took_part_since(const PeerId& peer, std::uint64_t step) const {
    return std::ranges::all_of(rounds_, [&](const auto& entry) {
        const Round& round = entry.second;
        if (round.step < step) return true;
        const auto place = place_of(*round.plan, peer);
        return place && !round.plan->members[*place].input.is_empty();
    });
}

void GradientValidators::note_silence(std::uint64_t step) {
    if (holds_back_) return;
    for (auto& [draw, round] : rounds_)
        for (auto& [target, open] : round.rechecks) {
            // A newcomer's checks give way where there is no time for all (CheckQueue).
            if (round.plan->members[target].weightless) continue;
            if (open.missed || open.validator == host_.id() ||
                open.book.has_answered(open.validator) ||
                round.step + timeout_with(round, target, open) > step)
                continue;
            open.missed = true;
            if (took_part_since(open.validator, round.step) && !is_mistaken(open.validator) &&
                silent_.missed(open.validator, round.step))
                testify(round, open.validator);
        }
}

void GradientValidators::testify(const Round& round, const PeerId& validator) {
    const auto own_place = place_of(*round.plan, host_.id());
    if (!own_place) return;
    averaging::Testimony testimony;
    testimony.plan = round.proof.draw.plan;
    testimony.observation = averaging::Observation::unanswered;
    testimony.subject = *place_of(*round.plan, validator);
    averaging::SignedBy statement;
    statement.member = *own_place;
    statement.payload = wire::encode(testimony);
    statement.signature = signer_.sign(averaging::testimony_domain, statement.payload);
    publish(silence_method, statement);
    receive_silence(statement);
}

Task<Result<Bytes>> GradientValidators::on_silence(PeerId from, Bytes request) {
    if (ledger_.started() && ledger_.base().barring(from) != nullptr)
        co_return make_error(ErrorKind::denied, "you are kept out of this run");
    const auto statement = wire::decode<averaging::SignedBy>(request);
    if (!statement) co_return make_error(ErrorKind::peer_broke_protocol, "not a testimony");
    receive_silence(*statement);
    co_return Bytes{};
}

void GradientValidators::receive_silence(const averaging::SignedBy& statement) {
    const auto testimony = wire::decode<averaging::Testimony>(statement.payload);
    if (!testimony) return;
    const auto about = std::ranges::find_if(rounds_, [&](const auto& entry) {
        return entry.second.proof.draw.plan == testimony->plan;
    });
    if (about == rounds_.end()) return;
    const Round& round = about->second;
    const auto evidence =
        silent_.take(verifier_, round.plan_bytes, *round.plan, statement, ledger_.base().voters);
    if (!evidence) return;
    const PeerId& validator = round.plan->members[testimony->subject].peer;
    if (is_mistaken(validator)) return;
    robust::Order made = order(robust::OrderKind::probation, robust::Offence::withheld, validator);
    made.until_step = made.from_step + averaging::withheld_for_steps;
    propose_bytes(std::move(made), wire::encode(*evidence));
}

}  // namespace dedloc::validation
