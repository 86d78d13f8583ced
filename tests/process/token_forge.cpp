#include "tests/process/token_forge.h"

#include <chrono>

#include "dedloc/security/hash.h"
#include "dedloc/wire/message.h"

namespace dedloc::lab {
namespace {

constexpr double hour_s = 3600;

double wall_s() {
    return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch())
        .count();
}

PeerId another_peer() { return security::Identity::generate().id(); }

Bytes signed_by(const security::Signer& signer,
                const Digest& run,
                const PeerId& holder,
                std::optional<admission::Delegation> delegation = std::nullopt) {
    return admission::encode_token(*admission::issue_token(
        signer, run, {.subject = "mallory", .holder = holder}, wall_s(), std::move(delegation)));
}

}  // namespace

Bytes TokenForge::token(const Digest& run,
                        const PeerId& holder,
                        const std::string& subject,
                        double issued_hours_ago) const {
    const admission::Grant grant{.subject = subject, .holder = holder};
    return admission::encode_token(
        *admission::issue_token(authority_, run, grant, wall_s() - issued_hours_ago * hour_s));
}

Intruder TokenForge::late() const {
    return {"expired", "the token expired 1 h ago", [this](const PeerId& own) {
                return token(run_, own, "mallory", 7);
            }};
}

std::vector<Intruder> TokenForge::intruders(const std::string& revoked) const {
    std::vector<Intruder> all;
    all.push_back({"other-run", "the token is of run", [this](const PeerId& own) {
                       return token(security::sha256(as_bytes("another")), own, "mallory", 0);
                   }});
    all.push_back({"other-key", "is bound to the key", [this](const PeerId&) {
                       return token(run_, another_peer(), "mallory", 0);
                   }});
    all.push_back({"clock", "in the future: set one of the two clocks", [this](const PeerId& own) {
                       return token(run_, own, "mallory", -2);
                   }});
    all.push_back({"forged", "does not hold", [this](const PeerId& own) {
                       auto changed =
                           *wire::decode<admission::Token>(token(run_, own, "mallory", 0));
                       changed.subject = "olga";
                       return admission::encode_token(changed);
                   }});
    all.push_back(
        {"unknown-issuer", "whom this run's authority has not named", [this](const PeerId& own) {
             const security::IdentitySigner stranger(security::Identity::generate());
             return signed_by(stranger, run_, own);
         }});
    all.push_back({"old-delegation", "may issue no longer", [this](const PeerId& own) {
                       const security::IdentitySigner once(security::Identity::generate());
                       auto delegation = admission::delegate_to(authority_,
                                                                run_,
                                                                {.subject = "carla",
                                                                 .issuer = once.id(),
                                                                 .named_by = "olga",
                                                                 .not_after = wall_s() - hour_s});
                       return signed_by(once, run_, own, std::move(delegation));
                   }});
    all.push_back({"revoked",
                   "has revoked the admission of " + revoked,
                   [this, revoked](const PeerId& own) { return token(run_, own, revoked, 0); }});
    all.push_back({"no-token", "no token was presented", [](const PeerId&) { return Bytes(); }});
    return all;
}

}  // namespace dedloc::lab
