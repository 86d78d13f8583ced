// Tokens: how a member of an invited run proves, to anybody and without asking anybody, that an
// organiser let this person in with this key until that time.
//
//   authority    the key that the run file names; it signs tokens and delegations
//   delegation   lets another key (a co-organiser's) issue tokens of the same run; it says whose
//                key that is
//   token        {run, subject, holder, issued_at, not_after, serial, issuer[, delegation]}, signed
//
// Authority is verified along the chain: a revoked person's tokens are worth nothing, and neither
// is what such a person signed as a co-organiser, whenever that says that it was signed.
//
// A token is bound to the holder's PeerId, so a stolen one is worth nothing on another connection:
// the transport has authenticated who presents it. Members check at the handshake and again when
// the token that they know runs out. Times are wall-clock seconds since 1970; clocks may be apart
// by clock_skew_max.
//
// Source: the TokenAuthorizer of hivemind 0.9 with its six-hour tokens (DeDLOC's sahajBERT run);
// here a token needs no signature over each message, as connections are authenticated. Errors:
// values with a sentence for the peer that is refused. Cost: one or two Ed25519 verifications.
// Thread: any; pure.

#pragma once
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "dedloc/base/bytes.h"
#include "dedloc/base/fields.h"
#include "dedloc/base/peer_id.h"
#include "dedloc/base/result.h"
#include "dedloc/base/time.h"
#include "dedloc/security/signer.h"

namespace dedloc::admission {

inline constexpr std::string_view token_domain = "dedloc/token/1";
inline constexpr std::string_view delegation_domain = "dedloc/delegation/2";
inline constexpr std::string_view revocation_domain = "dedloc/revocation/1";
inline constexpr std::size_t subject_bytes_max = 64;  // a person's name, for people
inline constexpr std::size_t token_bytes_max = 1024;
inline constexpr WallSeconds clock_skew_max = 60;        // computers at home are rarely worse
inline constexpr WallSeconds token_lifetime = 6 * 3600;  // as in the sahajBERT run
// A token says no longer a time than this, so that a revoked one dies by itself.
inline constexpr WallSeconds token_lifetime_max = 31 * 24 * 3600.0;
inline constexpr std::size_t revoked_max = 4096;  // names in force; far more than a run has people

// Signed by the run's authority.
struct Delegation {
    Digest run;
    PeerId issuer;
    std::uint64_t not_after = 0;
    Bytes signature;
    std::string subject;   // the co-organiser
    std::string named_by;  // the organiser, whom a co-organiser cannot revoke

    DEDLOC_FIELDS(run, issuer, not_after, signature, subject, named_by)
};

struct Token {
    Digest run;
    std::string subject;  // the person; a person may hold several tokens, one a device
    PeerId holder;        // the device's key
    std::uint64_t issued_at = 0;
    std::uint64_t not_after = 0;
    std::uint64_t serial = 0;
    PeerId issuer;
    std::optional<Delegation> delegation{};  // where the issuer is not the authority
    Bytes signature;

    // The co-organiser who let the holder in; empty: the organiser.
    std::string let_in_by() const { return delegation ? delegation->subject : std::string(); }

    DEDLOC_FIELDS(run, subject, holder, issued_at, not_after, serial, issuer, delegation, signature)
};

// Signed by the authority or by a co-organiser: every token of this person is worth nothing from
// now on, wherever it is presented. Peers pass it on to each other. `issued_at` is for people only:
// its author writes it.
struct Revocation {
    Digest run;
    std::string subject;
    std::uint64_t issued_at = 0;
    PeerId issuer;
    std::optional<Delegation> delegation{};
    Bytes signature;

    DEDLOC_FIELDS(run, subject, issued_at, issuer, delegation, signature)
};

// Why a token does not let its holder in.
enum class Refusal {
    missing,         // none was presented
    unreadable,      // no token at all
    other_run,       // of another run
    other_key,       // bound to another key than that of the connection
    unknown_issuer,  // signed by a key that the run's authority has not named
    forged,          // a signature does not hold
    expired,
    from_the_future,  // one of the two clocks is wrong
    too_long,         // says a longer time than any token may
    revoked,
};

std::string_view to_string(Refusal refusal);

// A member verifies tokens by these: the run, its authority, and who is revoked.
struct Rules {
    Digest run;
    PeerId authority;
    std::set<std::string> revoked{};  // subjects
};

struct Refused {
    Refusal why;
    std::string words;  // one sentence for the refused peer: what, and what to do

    Error as_error() const { return Error(ErrorKind::denied, words); }
};

// The token, or why not.
class TokenCheck {
  public:
    TokenCheck(Token token) : token_(std::move(token)) {}          // NOLINT
    TokenCheck(Refused refused) : refused_(std::move(refused)) {}  // NOLINT

    explicit operator bool() const { return token_.has_value(); }
    const Token& token() const { return *token_; }
    const Refused& refused() const { return *refused_; }

  private:
    std::optional<Token> token_;
    std::optional<Refused> refused_;
};

// `presented` came over the connection of `presenter` at `now`.
TokenCheck verify_token(ByteView presented,
                        const PeerId& presenter,
                        WallSeconds now,
                        const Rules& rules,
                        const security::Verifier& verifier);

// An organiser verifies a token by this before it is renewed: it ran out, or was made by a clock
// that was wrong. `is_known`: the organiser knows by itself that this key is a device of that
// person, so that the co-organiser who signed may have been revoked, or may organise no longer.
TokenCheck verify_old_token(ByteView presented,
                            const PeerId& presenter,
                            WallSeconds now,
                            const Rules& rules,
                            const security::Verifier& verifier,
                            bool is_known);

// Letters that a terminal and a table can show; bad_input says what is wrong with the name.
Ok check_subject(std::string_view subject);

// An issuer says this of a device that it lets in.
struct Grant {
    std::string subject;
    PeerId holder;
    WallSeconds lifetime = token_lifetime;
    std::uint64_t serial = 0;
};

// The signer is the authority, or holds `delegation`. bad_input: no subject, or too long a time.
Result<Token> issue_token(const security::Signer& signer,
                          const Digest& run,
                          const Grant& grant,
                          WallSeconds now,
                          std::optional<Delegation> delegation = std::nullopt);

// The authority makes `issuer`, a device of `subject`, a co-organiser's.
struct Appointment {
    std::string subject;
    PeerId issuer;
    std::string named_by;
    WallSeconds not_after = 0;
};
Delegation delegate_to(const security::Signer& authority,
                       const Digest& run,
                       const Appointment& appointment);

Bytes encode_token(const Token& token);

Bytes revoke_subject(const security::Signer& signer,
                     const Digest& run,
                     const std::string& subject,
                     WallSeconds now,
                     std::optional<Delegation> delegation = std::nullopt);
// A revocation that came at `now`. denied: it is not of this run, or not signed by one who may now.
Result<Revocation> verify_revocation(ByteView presented,
                                     WallSeconds now,
                                     const Rules& rules,
                                     const security::Verifier& verifier);

// "2 h 5 min", "40 s": for sentences about clocks and expiries.
std::string duration_in_words(WallSeconds seconds);

}  // namespace dedloc::admission
