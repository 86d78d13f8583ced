#include "dedloc/admission/token_authorizer.h"

#include <algorithm>

#include "dedloc/security/hash.h"

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
    const admission::Verdict verdict =
        admission::judge_token(shown, shower, clock_.wall_now(), rules_, verifier_);
    if (verdict) {
        const admission::Token& token = verdict.token();
        remember(shower,
                 {.subject = token.subject,
                  .issued_at = static_cast<WallSeconds>(token.issued_at),
                  .not_after = static_cast<WallSeconds>(token.not_after)});
        return {};
    }
    if (shown_by == membership::Side::caller) return verdict.refused().as_error();
    return make_error(ErrorKind::denied,
                      "peer {} may not take part itself: {}",
                      meeting.callee.short_text(),
                      verdict.refused().words);
}

// The token that ended first makes room: its peer is asked again when it comes.
void TokenAuthorizer::remember(const PeerId& peer, Shown shown) {
    if (shown_.size() >= shown_max && !shown_.contains(peer)) {
        const auto ends_first = [](const auto& entry) { return entry.second.not_after; };
        shown_.erase(std::ranges::min_element(shown_, {}, ends_first));
    }
    shown_[peer] = std::move(shown);
}

// Its holder renews it at half its time.
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
    const WallSeconds late = clock_.wall_now() - shown.not_after;
    if (late <= admission::clock_skew_max) return std::nullopt;
    return make_error(ErrorKind::denied,
                      "the token of {} expired {} ago and was not renewed",
                      shown.subject,
                      admission::duration_in_words(late));
}

std::string TokenAuthorizer::person(const PeerId& peer) const {
    const auto found = shown_.find(peer);
    return found == shown_.end() ? std::string() : found->second.subject;
}

Result<bool> TokenAuthorizer::revoke(ByteView revocation) {
    const Digest evidence = security::sha256(revocation);
    if (revocations_.contains(evidence)) return false;
    DEDLOC_TRY(std::string subject, admission::judge_revocation(revocation, rules_, verifier_));
    if (revocations_.size() >= admission::revoked_max)
        return make_error(ErrorKind::overloaded, "{} people are revoked", admission::revoked_max);
    rules_.revoked.insert(subject);
    revocations_[evidence] = {.person = std::move(subject), .bytes = to_bytes(revocation)};
    return true;
}

bool TokenAuthorizer::says_revocation(const Digest& evidence, std::string_view person) const {
    const auto found = revocations_.find(evidence);
    return found != revocations_.end() && found->second.person == person;
}

bool TokenAuthorizer::obey(const std::string& person) {
    if (rules_.revoked.size() >= admission::revoked_max) return false;
    return rules_.revoked.insert(person).second;
}

}  // namespace dedloc::admission
