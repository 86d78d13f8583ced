// TokenAuthorizer: lets those in whose token an organiser of the run has signed
// (admission/token.h).
//
//   credential = the token; it is bound to the key of the connection, so it needs no fresh proof
//
// The authorizer remembers until when the tokens are good that members showed last, and who was
// revoked: the membership asks again before a token ends, and parts from who is revoked.
//
// Limits: shown_max peers are remembered, revoked_max people. Cost: one or two signatures a check.
// Thread: the network thread.

#pragma once
#include <map>
#include <vector>

#include "dedloc/admission/token.h"
#include "dedloc/membership/authorizer.h"
#include "dedloc/membership/status.h"
#include "dedloc/runtime/clock.h"
#include "dedloc/security/signer.h"

namespace dedloc::admission {

// So long a member that a co-organiser let in may stay when that one is revoked: time for another
// organiser to renew its token.
inline constexpr Duration chain_grace = std::chrono::minutes(10);
// All members that a peer may know, and as many who were members.
inline constexpr std::size_t shown_max = 2 * membership::peers_max;

class TokenAuthorizer final : public membership::Authorizer {
  public:
    TokenAuthorizer(const Digest& run,
                    const PeerId& authority,
                    const security::Verifier& verifier,
                    const runtime::Clock& clock);

    Bytes credential(const membership::Meeting&, membership::Side) const override { return own_; }
    Ok check(const membership::Meeting& meeting,
             membership::Side shown_by,
             ByteView credential) override;
    bool ends_soon(const PeerId& peer) const override;
    std::optional<Error> objection(const PeerId& peer) const override;
    bool has_put_out(const PeerId& peer) const override;
    std::string person(const PeerId& peer) const override;

    const Bytes& own() const { return own_; }
    void set_own(Bytes token) { own_ = std::move(token); }
    const admission::Rules& rules() const { return rules_; }

    // The person who let a member in, as its token says; empty: the organiser, or it is not known.
    std::string let_in_by(const PeerId& peer) const;
    // The co-organiser who signed this peer's own token has been revoked.
    bool own_chain_is_revoked() const;

    // Takes a revocation that the organiser or a peer showed. True: it is news.
    // Errors: denied, bad_input (no revocation of this run); overloaded.
    Result<bool> revoke(ByteView revocation);
    // Revocations in force, by the SHA-256 of their bytes.
    struct KnownRevocation {
        std::string person;
        Bytes bytes;            // as it came
        std::string signed_by;  // the co-organiser; empty: the authority
    };
    const std::map<Digest, KnownRevocation>& revocations() const { return revocations_; }
    bool has_revocation(const Digest& evidence) const { return revocations_.contains(evidence); }
    bool says_revocation(const Digest& evidence, std::string_view person) const;
    // As a certificate orders; true: it is news.
    bool obey(const std::string& person);

  private:
    struct Shown {
        std::string subject;
        std::string let_in_by;
        WallSeconds issued_at = 0;
        WallSeconds not_after = 0;
    };
    void remember(const PeerId& peer, Shown shown);
    void put_out(const std::string& person);
    bool is_past_grace(const Shown& shown) const;

    admission::Rules rules_;
    const security::Verifier& verifier_;
    const runtime::Clock& clock_;
    Bytes own_;
    std::map<PeerId, Shown> shown_;
    std::map<Digest, KnownRevocation> revocations_;
    std::map<std::string, TimePoint> revoked_at_;  // when that came to be known here
};

}  // namespace dedloc::admission
