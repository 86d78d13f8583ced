// Authorizer: decides who may take part in a run. At the hello each side shows the other a
// credential that is bound to this one meeting, so that nobody can show it again.
//
// Implementations: SecretAuthorizer (everybody who knows the run's secret).
//
// Thread: the network thread.

#pragma once
#include "dedloc/base/bytes.h"
#include "dedloc/base/peer_id.h"
#include "dedloc/base/result.h"

namespace dedloc::collab {

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
    // What this peer, on that side of the meeting, shows the other.
    virtual Bytes credential(const Meeting& meeting, Side own) const = 0;
    // Whether what the peer on side `shown_by` showed lets it take part. Errors: denied, in a
    // sentence for the one who reads it: the caller reads what it is refused for, and what it
    // refuses a callee for.
    virtual Ok check(const Meeting& meeting, Side shown_by, ByteView credential) const = 0;
};

}  // namespace dedloc::collab
