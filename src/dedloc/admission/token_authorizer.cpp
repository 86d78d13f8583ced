#include "dedloc/admission/token_authorizer.h"

#include <algorithm>

#include "dedloc/security/hash.h"
#include "dedloc/wire/message.h"

namespace dedloc::admission {

TokenAuthorizer::TokenAuthorizer(const Digest& run,
                                 const PeerId& authority,
                                 const security::Verifier& verifier,
                                 const runtime::Clock& clock)
    : verifier_(verifier), clock_(clock) {
    rules_.run = run;
    rules_.authority = authority;
}

Ok TokenAuthorizer::check(const membership::Meeting& meeting,
                          membership::Side shown_by,
                          ByteView shown) {
    const PeerId& shower = shown_by == membership::Side::caller ? meeting.caller : meeting.callee;
    const admission::TokenCheck checked =
        admission::verify_token(shown, shower, clock_.wall_now(), rules_, verifier_);
    if (checked) {
        const admission::Token& token = checked.token();
        remember(shower,
                 {.subject = token.subject,
                  .let_in_by = token.let_in_by(),
                  .issued_at = static_cast<WallSeconds>(token.issued_at),
                  .not_after = static_cast<WallSeconds>(token.not_after)});
        return {};
    }
    if (shown_by == membership::Side::caller) return checked.refused().as_error();
    return make_error(ErrorKind::denied,
                      "peer {} may not take part itself: {}",
                      meeting.callee.short_text(),
                      checked.refused().words);
}

// The token that ended first makes room: its peer is asked again when it comes.
void TokenAuthorizer::remember(const PeerId& peer, Shown shown) {
    if (shown_.size() >= shown_max && !shown_.contains(peer)) {
        const auto ends_first = [](const auto& entry) { return entry.second.not_after; };
        shown_.erase(std::ranges::min_element(shown_, {}, ends_first));
    }
    shown_[peer] = std::move(shown);
}

// The holder renews a token at half its time.
bool TokenAuthorizer::ends_soon(const PeerId& peer) const {
    const auto found = shown_.find(peer);
    if (found == shown_.end()) return false;
    const Shown& shown = found->second;
    return shown.not_after - clock_.wall_now() < (shown.not_after - shown.issued_at) / 4;
}

std::optional<Error> TokenAuthorizer::objection(const PeerId& peer) const {
    const auto found = shown_.find(peer);
    if (found == shown_.end()) return std::nullopt;
    const Shown& shown = found->second;
    if (rules_.revoked.contains(shown.subject))
        return make_error(
            ErrorKind::denied, "the organiser has revoked the admission of {}", shown.subject);
    if (is_past_grace(shown))
        return make_error(ErrorKind::denied,
                          "the organiser has revoked the admission of {}, who let {} in, and no "
                          "other organiser has renewed the token since",
                          shown.let_in_by,
                          shown.subject);
    const WallSeconds late = clock_.wall_now() - shown.not_after;
    if (late <= admission::clock_skew_max) return std::nullopt;
    return make_error(ErrorKind::denied,
                      "the token of {} expired {} ago and was not renewed",
                      shown.subject,
                      admission::duration_in_words(late));
}

// A member's token was right when it was shown, before the revocation came.
bool TokenAuthorizer::is_past_grace(const Shown& shown) const {
    if (shown.let_in_by.empty()) return false;
    const auto revoked = revoked_at_.find(shown.let_in_by);
    return revoked != revoked_at_.end() && clock_.now() - revoked->second > chain_grace;
}

std::string TokenAuthorizer::let_in_by(const PeerId& peer) const {
    const auto found = shown_.find(peer);
    return found == shown_.end() ? std::string() : found->second.let_in_by;
}

bool TokenAuthorizer::own_chain_is_revoked() const {
    const auto own = wire::decode<admission::Token>(own_);
    return own && rules_.revoked.contains(own->let_in_by());
}

bool TokenAuthorizer::has_put_out(const PeerId& peer) const {
    return rules_.revoked.contains(person(peer));
}

std::string TokenAuthorizer::person(const PeerId& peer) const {
    const auto found = shown_.find(peer);
    return found == shown_.end() ? std::string() : found->second.subject;
}

Result<bool> TokenAuthorizer::revoke(ByteView revocation) {
    const Digest evidence = security::sha256(revocation);
    if (revocations_.contains(evidence)) return false;
    DEDLOC_TRY(admission::Revocation taken,
               admission::verify_revocation(revocation, clock_.wall_now(), rules_, verifier_));
    if (revocations_.size() >= admission::revoked_max)
        return make_error(ErrorKind::overloaded, "{} people are revoked", admission::revoked_max);
    put_out(taken.subject);
    revocations_[evidence] = {.person = std::move(taken.subject),
                              .bytes = to_bytes(revocation),
                              .signed_by = taken.delegation ? taken.delegation->subject : ""};
    return true;
}

// Revocations that this person signed as a co-organiser stay in force here, but convince nobody who
// hears of them from now on: they are passed on no more.
void TokenAuthorizer::put_out(const std::string& person) {
    rules_.revoked.insert(person);
    revoked_at_.emplace(person, clock_.now());
    std::erase_if(revocations_,
                  [&person](const auto& known) { return known.second.signed_by == person; });
}

bool TokenAuthorizer::says_revocation(const Digest& evidence, std::string_view person) const {
    const auto found = revocations_.find(evidence);
    return found != revocations_.end() && found->second.person == person;
}

bool TokenAuthorizer::obey(const std::string& person) {
    if (rules_.revoked.size() >= admission::revoked_max) return false;
    if (rules_.revoked.contains(person)) return false;
    put_out(person);
    return true;
}

}  // namespace dedloc::admission
