// Authorizer: decides who may take part in a run. At the hello each side shows the other a
// credential that is bound to this one meeting, so that nobody can show it again.
//
// Implementations: SecretAuthorizer (everybody who knows the run's secret), TokenAuthorizer
// (everybody whom an organiser let in).
//
// Thread: the network thread.

#pragma once
#include <optional>
#include <string>

#include "dedloc/base/bytes.h"
#include "dedloc/base/peer_id.h"
#include "dedloc/base/result.h"

namespace dedloc::membership {

// Two peers that meet, and what each of them drew for it.
struct Meeting {
    PeerId caller;
    PeerId callee;
    Bytes nonce_caller;
    Bytes nonce_callee;
};

enum class Side { caller, callee };

class Authorizer {
  public:
    virtual ~Authorizer() = default;
    // This peer, on that side of the meeting, shows this to the other.
    virtual Bytes credential(const Meeting& meeting, Side own) const = 0;
    // Whether what the peer on side `shown_by` showed lets it take part. Errors: denied, in a
    // sentence for the one who reads it: the caller reads what it is refused for, and what it
    // refuses a callee for.
    virtual Ok check(const Meeting& meeting, Side shown_by, ByteView credential) = 0;
    // An open run: nothing need be proved.
    virtual bool lets_everybody_in() const { return false; }
    // True if what a peer showed last is soon good no longer: it should show what it has now.
    virtual bool ends_soon(const PeerId&) const { return false; }
    // In a sentence, why a peer that was let in may stay no longer; nothing: it may.
    virtual std::optional<Error> objection(const PeerId&) const { return std::nullopt; }
    // The peer was let in once, and an organiser has put it out since, for good.
    virtual bool has_put_out(const PeerId&) const { return false; }
    // The person whose device it is, as an organiser says; empty: not known.
    virtual std::string person(const PeerId&) const { return {}; }
};

}  // namespace dedloc::membership
