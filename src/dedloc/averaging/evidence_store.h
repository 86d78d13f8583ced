// EvidenceStore: evidence and proofs by the SHA-256 of their bytes, for voters who lack them.
//
// Bounds: evidence_store_bytes_max in all; the oldest go first. Fetching is bounded by
// evidence_bytes_max whatever the other side says. Thread: the network thread.

#pragma once
#include <deque>
#include <map>

#include "dedloc/averaging/environment.h"
#include "dedloc/base/shared_bytes.h"
#include "dedloc/p2p/handlers.h"

namespace dedloc::averaging {

inline constexpr std::size_t evidence_store_bytes_max = 96u << 20;  // a large one, and many small

class EvidenceStore {
  public:
    explicit EvidenceStore(const RoundEnvironment& environment)
        : environment_(environment), handlers_(environment.host) {}

    void start();
    Task<void> stop() { return handlers_.stop(); }

    Digest put(Bytes bytes);
    SharedBytes find(const Digest& digest) const;  // empty-handed: not here
    // From here, or from that peer. Errors: not_found, timeout, peer_broke_protocol.
    Task<Result<SharedBytes>> fetch(PeerId from, Digest digest, TimePoint deadline);

  private:
    Task<Result<Bytes>> on_evidence(PeerId from, Bytes request);

    const RoundEnvironment& environment_;
    p2p::Handlers handlers_;
    std::map<Digest, SharedBytes> kept_;
    std::deque<Digest> order_;
    std::size_t bytes_ = 0;
};

}  // namespace dedloc::averaging
