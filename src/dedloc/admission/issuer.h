// Issuer: lets people in. Behind it is the organiser's book of invitations (BookIssuer).
//
// Errors: denied, with a sentence for who asks; local_fault: the book cannot be written, so nobody
// is let in. Thread: the network thread.

#pragma once
#include <optional>
#include <vector>

#include "dedloc/admission/token.h"

namespace dedloc::admission {

struct Issued {
    admission::Token token;
    std::optional<admission::Delegation> delegation{};  // its holder may let people in, too
};

class Issuer {
  public:
    virtual ~Issuer() = default;
    virtual Result<Issued> redeem(ByteView code, const PeerId& peer) = 0;
    virtual Result<Issued> renew(ByteView token, const PeerId& peer, const admission::Rules&) = 0;
    // Members have met a device of this person, whom `let_in_by` let in (empty: this organiser).
    virtual void met(const std::string& person,
                     const PeerId& device,
                     const std::string& let_in_by) = 0;
    // Another organiser has revoked this person. The authority's issuer signs that, too.
    virtual void revoked(const std::string& person) = 0;
    // A co-organiser's: the organiser may be asked for the tokens of this machine instead.
    virtual bool is_delegated() const = 0;
    // A token for this peer itself.
    virtual Result<Bytes> own_token(const PeerId& self) = 0;
    // Does what was asked for on this machine since the last look. What was revoked so far, signed.
    virtual std::vector<Bytes> poll() = 0;
};

}  // namespace dedloc::admission
