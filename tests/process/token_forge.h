// TokenForge: tokens as an honest organiser would never sign them, and a folder for the stranger
// who presents one, with a key of its own.
//
// Thread: any. Errors: local_fault.

#pragma once
#include <functional>
#include <string>
#include <vector>

#include "dedloc/admission/token.h"
#include "dedloc/base/result.h"
#include "dedloc/security/identity.h"

namespace dedloc::lab {

struct Intruder {
    std::string name;                                 // of its folder
    std::string words;                                // that its refusal must contain
    std::function<Bytes(const PeerId& own)> token{};  // null: it has none
};

class TokenForge {
  public:
    TokenForge(const security::Identity& authority, const Digest& run)
        : authority_(authority), run_(run) {}

    // Eight that present a token which is refused; `revoked` is a person who was revoked.
    std::vector<Intruder> intruders(const std::string& revoked) const;
    // An intruder whose token was good until an hour ago.
    Intruder late() const;

  private:
    Bytes token(const Digest& run,
                const PeerId& holder,
                const std::string& subject,
                double issued_hours_ago) const;

    security::IdentitySigner authority_;
    Digest run_;
};

}  // namespace dedloc::lab
