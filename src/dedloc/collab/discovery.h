// Discovery: peers of a run find each other through the DHT, so that it does not matter whose
// address was in the join string or whether that peer still lives.
//
// Every peer publishes its signed status under its own subkey of sha1("<run hash>/peers/<slot>"),
// slot = hash(PeerId) mod slots, and reads one slot at a time in turn. A slot is one DHT record of
// at most 64 peers or so; the number of slots follows from how full they are.
//
// Thread: the network thread. Cost: one store and one get every interval.

#pragma once
#include "dedloc/collab/membership.h"
#include "dedloc/dht/node.h"

namespace dedloc::collab {

struct DiscoveryOptions {
    Duration publish_every = 30s;
    Duration read_every = 15s;
    double lives_s = 90;  // a status expires after this
    bool client_mode = false;
};

class Discovery {
  public:
    Discovery(runtime::Node node,
              p2p::Host& host,
              const security::Signer& signer,
              const security::Verifier& verifier,
              const Digest& run,
              Membership& membership,
              DiscoveryOptions options = {});
    ~Discovery();

    void start();
    // Withdraws our record (an empty one in its place), then ends.
    Task<void> stop(bool withdraw);

  private:
    Task<void> publish_loop();
    Task<void> read_loop();
    Task<void> read_slot(std::uint32_t slot);
    dht::DhtId key(std::uint32_t slot) const;
    std::uint32_t own_slot() const;

    runtime::Node node_;
    p2p::Host& host_;
    const security::Signer& signer_;
    Digest run_;
    Membership& membership_;
    DiscoveryOptions options_;
    dht::DhtNode dht_;
    std::uint32_t slots_ = 1;
    bool published_ = false;
    runtime::Scope scope_;
};

}  // namespace dedloc::collab
