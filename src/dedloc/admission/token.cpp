#include "dedloc/admission/token.h"

#include <algorithm>
#include <cmath>

#include "dedloc/base/printable.h"
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

// Did the authority name the issuer of this? Null: yes.
template <typename Signed>
std::optional<Refused> verify_delegation(const Signed& document,
                                         const Rules& rules,
                                         const security::Verifier& verifier) {
    if (document.issuer == rules.authority) return std::nullopt;
    if (!document.delegation || document.delegation->issuer != document.issuer)
        return refused(Refusal::unknown_issuer,
                       fmt::format("the token was signed by {}, whom this run's authority has not "
                                   "named: ask the organiser for an invitation",
                                   document.issuer.short_text()));
    const Delegation& delegation = *document.delegation;
    if (delegation.run != rules.run)
        return refused(Refusal::other_run,
                       "the token's issuer may issue for another run: ask the organiser of this "
                       "one for an invitation");
    if (!verifier.verify(
            rules.authority, delegation_domain, signed_part(delegation), delegation.signature))
        return refused(Refusal::forged,
                       "the authority's signature on the delegation does not hold");
    if (!check_subject(delegation.subject))
        return refused(Refusal::unknown_issuer, "the delegation names nobody");
    return std::nullopt;
}

// May the co-organiser still issue? Null: yes. Judged now: an issuer can write any time into what
// it signs.
template <typename Signed>
std::optional<Refused> verify_chain(const Signed& document, WallSeconds now, const Rules& rules) {
    if (document.issuer == rules.authority) return std::nullopt;
    const Delegation& delegation = *document.delegation;
    if (rules.revoked.contains(delegation.subject))
        return refused(Refusal::revoked,
                       fmt::format("the organiser has revoked the admission of {}, who signed "
                                   "this: ask the organiser for an invitation",
                                   delegation.subject));
    const auto ended = static_cast<WallSeconds>(delegation.not_after);
    if (now <= ended + clock_skew_max) return std::nullopt;
    return refused(Refusal::unknown_issuer,
                   fmt::format("the co-organiser {} may issue no longer since {}: ask the "
                               "organiser for an invitation",
                               delegation.subject,
                               duration_in_words(now - ended)));
}

template <typename Signed>
std::optional<Refused> verify_issuer(const Signed& document,
                                     WallSeconds now,
                                     const Rules& rules,
                                     const security::Verifier& verifier) {
    if (auto why = verify_delegation(document, rules, verifier)) return why;
    return verify_chain(document, now, rules);
}

Refused revoked_person(const std::string& subject) {
    return refused(Refusal::revoked,
                   fmt::format("the organiser has revoked the admission of {}", subject));
}

std::optional<Refused> verify_length(const Token& token) {
    const auto issued = static_cast<WallSeconds>(token.issued_at);
    const auto ends = static_cast<WallSeconds>(token.not_after);
    if (ends - issued <= token_lifetime_max) return std::nullopt;
    return refused(Refusal::too_long,
                   fmt::format("the token says {}, and none may say more than {}",
                               duration_in_words(ends - issued),
                               duration_in_words(token_lifetime_max)));
}

// Is the token of this time? Null: yes.
std::optional<Refused> verify_time(const Token& token, WallSeconds now) {
    const auto issued = static_cast<WallSeconds>(token.issued_at);
    const auto ends = static_cast<WallSeconds>(token.not_after);
    if (auto why = verify_length(token)) return why;
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

namespace {

// A token of this run and this presenter; who signed it, and when, is not looked at.
TokenCheck read_token(ByteView presented, const PeerId& presenter, const Rules& rules) {
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
    return token;
}

std::optional<Refused> verify_signature(const Token& token, const security::Verifier& verifier) {
    if (verifier.verify(token.issuer, token_domain, signed_part(token), token.signature))
        return std::nullopt;
    return refused(
        Refusal::forged,
        fmt::format("the signature of {} on the token does not hold", token.issuer.short_text()));
}

}  // namespace

TokenCheck verify_token(ByteView presented,
                        const PeerId& presenter,
                        WallSeconds now,
                        const Rules& rules,
                        const security::Verifier& verifier) {
    TokenCheck checked = read_token(presented, presenter, rules);
    if (!checked) return checked;
    const Token& token = checked.token();
    if (auto why = verify_issuer(token, now, rules, verifier)) return *std::move(why);
    if (auto why = verify_signature(token, verifier)) return *std::move(why);
    if (auto why = verify_time(token, now)) return *std::move(why);
    if (rules.revoked.contains(token.subject)) return revoked_person(token.subject);
    return checked;
}

TokenCheck verify_old_token(ByteView presented,
                            const PeerId& presenter,
                            WallSeconds now,
                            const Rules& rules,
                            const security::Verifier& verifier,
                            bool is_known) {
    TokenCheck checked = read_token(presented, presenter, rules);
    if (!checked) return checked;
    const Token& token = checked.token();
    if (auto why = verify_delegation(token, rules, verifier)) return *std::move(why);
    if (auto why = verify_signature(token, verifier)) return *std::move(why);
    if (auto why = verify_length(token)) return *std::move(why);
    if (rules.revoked.contains(token.subject)) return revoked_person(token.subject);
    if (is_known) return checked;
    if (auto why = verify_chain(token, now, rules)) return *std::move(why);
    return checked;
}

Ok check_subject(std::string_view subject) {
    if (subject.empty()) return make_error(ErrorKind::bad_input, "a person's name is empty");
    if (subject.size() > subject_bytes_max)
        return make_error(ErrorKind::bad_input,
                          "the name \"{}…\" is longer than {} bytes",
                          subject.substr(0, 16),
                          subject_bytes_max);
    for (std::string_view rest = subject; !rest.empty();) {
        const base::Letter letter = base::first_letter(rest);
        if (letter.code == 0 && rest.front() != 0)
            return make_error(ErrorKind::bad_input,
                              "the name \"{}\" is not UTF-8: your terminal or file has another "
                              "encoding",
                              base::printable(subject));
        if (letter.code < 0x20 || letter.code == 0x7f)
            return make_error(ErrorKind::bad_input,
                              "the name \"{}\" has a control character",
                              base::printable(subject));
        rest.remove_prefix(letter.bytes);
    }
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
                       const Appointment& appointment) {
    Delegation delegation;
    delegation.run = run;
    delegation.issuer = appointment.issuer;
    delegation.not_after = static_cast<std::uint64_t>(std::max(appointment.not_after, 0.0));
    delegation.subject = appointment.subject;
    delegation.named_by = appointment.named_by;
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

// A peer that takes a revocation in time keeps it, and the organiser signs it once more: so it
// stays in force when the co-organiser is one no longer.
Result<Revocation> verify_revocation(ByteView presented,
                                     WallSeconds now,
                                     const Rules& rules,
                                     const security::Verifier& verifier) {
    if (presented.size() > token_bytes_max)
        return make_error(ErrorKind::denied, "what was presented is too long for a revocation");
    DEDLOC_TRY(Revocation revocation, wire::decode<Revocation>(presented));
    DEDLOC_TRY_VOID(check_subject(revocation.subject));
    if (revocation.run != rules.run)
        return make_error(ErrorKind::denied, "a revocation of another run");
    if (const auto why = verify_issuer(revocation, now, rules, verifier)) return why->as_error();
    if (!verifier.verify(
            revocation.issuer, revocation_domain, signed_part(revocation), revocation.signature))
        return make_error(ErrorKind::denied, "the signature on a revocation does not hold");
    if (revocation.issuer != rules.authority &&
        revocation.subject == revocation.delegation->named_by)
        return make_error(
            ErrorKind::denied, "a co-organiser cannot revoke the organiser {}", revocation.subject);
    return revocation;
}

}  // namespace dedloc::admission
