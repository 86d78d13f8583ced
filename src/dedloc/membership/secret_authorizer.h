// SecretAuthorizer: lets everybody in who knows the secret of the join string, which is never sent.
//
//   credential = HMAC-SHA-256(secret, "dedloc-hello" ‖ who shows it ‖ to whom ‖ caller's nonce ‖
//                callee's nonce), each piece behind its length
//
// Everybody knows the secret of a run without one.

#pragma once
#include "dedloc/membership/authorizer.h"

namespace dedloc::membership {

class SecretAuthorizer final : public Authorizer {
  public:
    explicit SecretAuthorizer(Bytes secret) : secret_(std::move(secret)) {}
    Bytes credential(const Meeting& meeting, Side own) const override;
    Ok check(const Meeting& meeting, Side shown_by, ByteView credential) override;
    bool lets_everybody_in() const override { return secret_.empty(); }

  private:
    Bytes secret_;
};

}  // namespace dedloc::membership
