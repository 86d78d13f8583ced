// Certificates that were slept through: from a peer that knows more of the chain.
//
// Thread: the network thread. Cancel: what was accepted stays.

#pragma once
#include <map>

#include "dedloc/consensus/ledger.h"
#include "dedloc/p2p/host.h"
#include "dedloc/runtime/clock.h"

namespace dedloc::consensus {

class CatchUp {
  public:
    CatchUp(runtime::Clock& clock, p2p::Host& host, Ledger& ledger)
        : clock_(clock), host_(host), ledger_(ledger) {}

    // Accepts what follows our newest certificate, page by page, as `peer` knows it. True: it knows
    // ours and nothing after it (any more). False: its chain is another one, or begins after ours.
    // Errors: as calls.
    Task<Result<bool>> follow_chain(PeerId peer);

    // The newest certificate of `peer`; empty: it knows none. Errors: as calls.
    Task<Result<Bytes>> newest_certificate(PeerId peer, TimePoint deadline);

  private:
    Duration timeout_with(const PeerId& peer) const;
    void learn_timeout(const PeerId& peer, Duration next);
    Task<Result<CertificatesReply>> ask(PeerId peer,
                                        CertificatesRequest request,
                                        TimePoint deadline);

    runtime::Clock& clock_;
    p2p::Host& host_;
    Ledger& ledger_;
    std::map<PeerId, Duration> timeout_;  // with peers that were late
};

Result<Decision> decision_of(ByteView certificate);

// Is a chain that ends in `theirs` to be preferred to one that stands on `ours`? Of one branch the
// longer one, of two the one with more committed samples.
bool is_better(const Base& ours, const Decision& theirs);

}  // namespace dedloc::consensus
