#include "dedloc/admission/token.h"

#include <algorithm>
#include <cmath>

#include "dedloc/wire/message.h"

namespace dedloc::admission {

namespace {

Bytes signed_part(Delegation delegation) {
    delegation.signature.clear();
    return wire::encode(delegation);
}

Bytes signed_part(Token token) {
    token.signature.clear();
    return wire::encode(token);
}

Bytes signed_part(Revocation revocation) {
    revocation.signature.clear();
    return wire::encode(revocation);
}

Refused refused(Refusal why, std::string words) { return Refused{why, std::move(words)}; }

// May the token's issuer issue? Null: yes.
template <typename Signed>
std::optional<Refused> judge_issuer(const Signed& token,
                                    WallSeconds now,
                                    const Rules& rules,
                                    const security::Verifier& verifier) {
    if (token.issuer == rules.authority) return std::nullopt;
    if (!token.delegation || token.delegation->issuer != token.issuer)
        return refused(Refusal::unknown_issuer,
                       fmt::format("the token was signed by {}, whom this run's authority has not "
                                   "named: ask the organiser for an invitation",
                                   token.issuer.short_text()));
    const Delegation& delegation = *token.delegation;
    if (delegation.run != rules.run)
        return refused(Refusal::other_run,
                       "the token's issuer may issue for another run: ask the organiser of this "
                       "one for an invitation");
    if (!verifier.verify(
            rules.authority, delegation_domain, signed_part(delegation), delegation.signature))
        return refused(Refusal::forged,
                       "the authority's signature on the delegation does not hold");
    const auto ended = static_cast<WallSeconds>(delegation.not_after);
    if (now > ended + clock_skew_max)
        return refused(Refusal::unknown_issuer,
                       fmt::format("the co-organiser {} may issue no longer since {}: ask the "
                                   "organiser for an invitation",
                                   token.issuer.short_text(),
                                   duration_in_words(now - ended)));
    return std::nullopt;
}

// Is the token of this time? Null: yes.
std::optional<Refused> judge_time(const Token& token, WallSeconds now) {
    const auto issued = static_cast<WallSeconds>(token.issued_at);
    const auto ends = static_cast<WallSeconds>(token.not_after);
    if (ends - issued > token_lifetime_max)
        return refused(Refusal::too_long,
                       fmt::format("the token says {}, and none may say more than {}",
                                   duration_in_words(ends - issued),
                                   duration_in_words(token_lifetime_max)));
    if (issued > now + clock_skew_max)
        return refused(Refusal::from_the_future,
                       fmt::format("the token was issued {} in the future: set one of the two "
                                   "clocks (they may be apart by {})",
                                   duration_in_words(issued - now),
                                   duration_in_words(clock_skew_max)));
    if (now > ends + clock_skew_max)
        return refused(Refusal::expired,
                       fmt::format("the token expired {} ago: it is renewed by itself while an "
                                   "organiser can be reached; otherwise ask for a new invitation",
                                   duration_in_words(now - ends)));
    return std::nullopt;
}

}  // namespace

std::string_view to_string(Refusal refusal) {
    switch (refusal) {
        case Refusal::missing:
            return "no token";
        case Refusal::unreadable:
            return "unreadable";
        case Refusal::other_run:
            return "another run";
        case Refusal::other_key:
            return "another key";
        case Refusal::unknown_issuer:
            return "unknown issuer";
        case Refusal::forged:
            return "forged";
        case Refusal::expired:
            return "expired";
        case Refusal::from_the_future:
            return "clock";
        case Refusal::too_long:
            return "too long";
        case Refusal::revoked:
            return "revoked";
    }
    return "refused";
}

std::string duration_in_words(WallSeconds seconds) {
    const auto whole = static_cast<std::int64_t>(std::clamp(std::round(seconds), 0.0, 1e12));
    const std::int64_t days = whole / 86'400;
    const std::int64_t hours = whole / 3'600 % 24;
    const std::int64_t minutes = whole / 60 % 60;
    if (days > 0)
        return hours > 0 ? fmt::format("{} d {} h", days, hours) : fmt::format("{} d", days);
    if (hours > 0)
        return minutes > 0 ? fmt::format("{} h {} min", hours, minutes)
                           : fmt::format("{} h", hours);
    if (minutes > 0) return fmt::format("{} min", minutes);
    return fmt::format("{} s", whole);
}

Verdict judge_token(ByteView presented,
                    const PeerId& presenter,
                    WallSeconds now,
                    const Rules& rules,
                    const security::Verifier& verifier) {
    if (presented.empty())
        return refused(Refusal::missing,
                       "this run lets in by invitation, and no token was presented: ask the "
                       "organiser for a join string of your own");
    if (presented.size() > token_bytes_max)
        return refused(Refusal::unreadable, "what was presented is too long for a token");
    auto decoded = wire::decode<Token>(presented);
    if (!decoded) return refused(Refusal::unreadable, "what was presented is no token");
    Token token = *std::move(decoded);
    if (token.run != rules.run)
        return refused(Refusal::other_run,
                       fmt::format("the token is of run {}, this is run {}",
                                   token.run.short_hex(),
                                   rules.run.short_hex()));
    if (token.holder != presenter)
        return refused(Refusal::other_key,
                       fmt::format("the token is bound to the key {}, and {} presents it: a token "
                                   "is good on the device that redeemed the invitation only",
                                   token.holder.short_text(),
                                   presenter.short_text()));
    if (!check_subject(token.subject))
        return refused(Refusal::unreadable, "the token names nobody");
    if (auto why = judge_issuer(token, now, rules, verifier)) return *std::move(why);
    if (!verifier.verify(token.issuer, token_domain, signed_part(token), token.signature))
        return refused(Refusal::forged,
                       fmt::format("the signature of {} on the token does not hold",
                                   token.issuer.short_text()));
    if (auto why = judge_time(token, now)) return *std::move(why);
    if (rules.revoked.contains(token.subject))
        return refused(Refusal::revoked,
                       fmt::format("the organiser has revoked the admission of {}", token.subject));
    return token;
}

Ok check_subject(std::string_view subject) {
    if (subject.empty()) return make_error(ErrorKind::bad_input, "a person's name is empty");
    if (subject.size() > subject_bytes_max)
        return make_error(ErrorKind::bad_input,
                          "the name \"{}…\" is longer than {} bytes",
                          subject.substr(0, 16),
                          subject_bytes_max);
    for (const char letter : subject)
        if (static_cast<unsigned char>(letter) < 0x20 || letter == 0x7f)
            return make_error(ErrorKind::bad_input, "a person's name has a control character");
    if (subject.front() == ' ' || subject.back() == ' ')
        return make_error(
            ErrorKind::bad_input, "the name \"{}\" begins or ends with a blank", subject);
    return {};
}

Result<Token> issue_token(const security::Signer& signer,
                          const Digest& run,
                          const Grant& grant,
                          WallSeconds now,
                          std::optional<Delegation> delegation) {
    DEDLOC_TRY_VOID(check_subject(grant.subject));
    if (!(grant.lifetime > 0) || grant.lifetime > token_lifetime_max)
        return make_error(ErrorKind::bad_input,
                          "a token lasts at most {}",
                          duration_in_words(token_lifetime_max));
    Token token;
    token.run = run;
    token.subject = grant.subject;
    token.holder = grant.holder;
    token.issued_at = static_cast<std::uint64_t>(std::max(now, 0.0));
    token.not_after = token.issued_at + static_cast<std::uint64_t>(grant.lifetime);
    token.serial = grant.serial;
    token.issuer = signer.id();
    token.delegation = std::move(delegation);
    token.signature = signer.sign(token_domain, signed_part(token));
    return token;
}

Delegation delegate_to(const security::Signer& authority,
                       const Digest& run,
                       const PeerId& issuer,
                       WallSeconds not_after) {
    Delegation delegation;
    delegation.run = run;
    delegation.issuer = issuer;
    delegation.not_after = static_cast<std::uint64_t>(std::max(not_after, 0.0));
    delegation.signature = authority.sign(delegation_domain, signed_part(delegation));
    return delegation;
}

Bytes encode_token(const Token& token) { return wire::encode(token); }

Bytes revoke_subject(const security::Signer& signer,
                     const Digest& run,
                     const std::string& subject,
                     WallSeconds now,
                     std::optional<Delegation> delegation) {
    Revocation revocation;
    revocation.run = run;
    revocation.subject = subject;
    revocation.issued_at = static_cast<std::uint64_t>(std::max(now, 0.0));
    revocation.issuer = signer.id();
    revocation.delegation = std::move(delegation);
    revocation.signature = signer.sign(revocation_domain, signed_part(revocation));
    return wire::encode(revocation);
}

// The co-organiser had to be one when it signed: what it revoked stays revoked.
Result<std::string> judge_revocation(ByteView presented,
                                     const Rules& rules,
                                     const security::Verifier& verifier) {
    if (presented.size() > token_bytes_max)
        return make_error(ErrorKind::denied, "what was presented is too long for a revocation");
    DEDLOC_TRY(Revocation revocation, wire::decode<Revocation>(presented));
    DEDLOC_TRY_VOID(check_subject(revocation.subject));
    if (revocation.run != rules.run)
        return make_error(ErrorKind::denied, "a revocation of another run");
    const auto then = static_cast<WallSeconds>(revocation.issued_at);
    if (const auto why = judge_issuer(revocation, then, rules, verifier)) return why->as_error();
    if (!verifier.verify(
            revocation.issuer, revocation_domain, signed_part(revocation), revocation.signature))
        return make_error(ErrorKind::denied, "the signature on a revocation does not hold");
    return std::move(revocation.subject);
}

}  // namespace dedloc::admission
