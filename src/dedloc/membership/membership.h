// Membership: who is in the run, proved and up to date. It puts together
//
//   PeerTable      whom we know, and which of them are members
//   Handshake      how two peers that meet prove that they may take part (Authorizer)
//   StatusGossip   how members hear of each other's progress
//   Reconnection   hellos to those that were only heard of, and to members that were lost
//   RunGate        the host's gate: whoever is no member speaks next to nothing with it
//
// Thread: the network thread. Limits: peers_max (a peer that comes beyond it is told so).

#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dedloc/membership/authorizer.h"
#include "dedloc/membership/handshake.h"
#include "dedloc/membership/peer_table.h"
#include "dedloc/membership/reconnection.h"
#include "dedloc/membership/run_gate.h"
#include "dedloc/membership/status_gossip.h"
#include "dedloc/p2p/handlers.h"
#include "dedloc/run/run_file.h"
#include "dedloc/runtime/event.h"

namespace dedloc::membership {

class Membership {
  public:
    struct Callbacks {
        std::function<Status()> own_status;
        std::function<void(const Status& before, const Status& now)> on_status;
        std::function<void(const Status&)> on_joined;
        std::function<void(const Status&, bool left_in_order)> on_lost;
        // A stranger was refused, or a member may stay no longer; it was told why.
        std::function<void(const PeerId&, const Error&)> on_refused = [](const PeerId&,
                                                                         const Error&) {};
        // Members refuse us, in these words.
        std::function<void(const PeerId&, const Error&)> on_refused_by = [](const PeerId&,
                                                                            const Error&) {};
        // Members say that another process has our key.
        std::function<void(const Error&)> on_key_used_twice = [](const Error&) {};
        // A sentence for a peer that orders keep out of the run; empty: it may take part.
        std::function<std::string(const PeerId&)> why_kept_out = [](const PeerId&) {
            return std::string();
        };
    };

    Membership(runtime::Node node,
               p2p::Host& host,
               const security::Signer& signer,
               const security::Verifier& verifier,
               const run::RunFile& run,
               std::shared_ptr<Authorizer> authorizer,
               Duration status_interval,
               std::size_t peers_most,
               std::vector<p2p::OpenProtocol> also_open,
               Callbacks callbacks);
    ~Membership();

    void start();
    Task<void> stop();

    // Dials a multiaddr (with or without /p2p/) and says hello.
    // Errors: as Host::dial and Handshake::greet.
    Task<Result<PeerId>> meet(std::string multiaddr, TimePoint deadline);

    bool is_member(const PeerId& peer) const { return table_.is_member(peer); }
    Authorizer& authorizer() const { return *authorizer_; }
    // `peer` has brought something to a certified step.
    void contributed(const PeerId& peer) { table_.contributed(peer); }
    bool has_contributed(const PeerId& peer) const {
        const KnownPeer* const known = find(peer);
        return known != nullptr && known->contributed;
    }
    // Members heard of lately, by PeerId.
    std::vector<const KnownPeer*> live() const { return table_.live(); }
    const KnownPeer* find(const PeerId& peer) const { return table_.find(peer); }
    // An order keeps it out from now on.
    void expel(const PeerId& peer);
    // Addresses worth giving to a newcomer (addresses_for_newcomers()).
    std::vector<std::string> known_addresses(std::size_t peers_told) const;
    const Bytes& own_signed_status() { return gossip_.own_signed_status(); }

    // Parts from members whose credentials are good no longer. It looks by itself with every
    // status; where a revocation came it is told to, so that the next round is without them.
    void check_admission();
    // Something others should know at once: pushes our status to all members.
    void push_now();
    // Tells everybody that we leave; waits a little for the answers.
    Task<void> say_goodbye();

  private:
    Task<Result<Bytes>> on_run_file(PeerId from, Bytes request);
    void on_disconnected(const PeerId& peer);
    StatusGossip::Callbacks gossip_callbacks();
    void push_to_all();
    Task<void> meet_member_again(PeerId peer);
    void refused(const PeerId& peer, const Error& why);
    Task<void> push_loop();

    runtime::Node node_;
    p2p::Host& host_;
    run::RunFile run_;
    std::shared_ptr<Authorizer> authorizer_;
    Duration status_interval_;
    Callbacks callbacks_;
    Random random_;
    PeerTable table_;
    TimePoint next_push_;
    struct Refusals {
        TimePoint since;
        std::size_t told = 0;
    } refusals_;
    runtime::Event wake_;
    StatusGossip gossip_;
    Handshake handshake_;
    Reconnection reconnection_;
    std::shared_ptr<RunGate> gate_;
    p2p::Handlers handlers_;
    runtime::Scope scope_;
};

}  // namespace dedloc::membership
