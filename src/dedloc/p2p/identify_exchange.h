// IdentifyExchange: a host tells others about itself, and learns about them: identify and
// identify/push.
//
// Source: libp2p specs/identify. Thread: the network thread. Limits: limits.h.

#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dedloc/p2p/nat_service.h"
#include "dedloc/p2p/swarm.h"

namespace dedloc::p2p {

class IdentifyExchange {
  public:
    struct Self {
        runtime::Clock& clock;
        const security::Identity& identity;
        std::string agent_version;
        std::function<std::vector<std::string>()> addresses;
        std::function<std::vector<std::string>()> protocols;
    };
    IdentifyExchange(Self self, Swarm& swarm, NatService& nat, runtime::Scope& scope)
        : self_(std::move(self)), swarm_(swarm), nat_(nat), scope_(scope) {}

    // Asks the peer of a new connection.
    Task<void> ask(ConnectionPtr connection);
    Task<void> serve(ConnectionPtr connection, std::shared_ptr<transport::Stream> stream);
    Task<void> receive_push(ConnectionPtr connection, std::shared_ptr<transport::Stream> stream);
    // Our addresses or protocols have changed: those who asked before are told, soon and together.
    void push_soon();
    // Nobody is told any more.
    void stop() { stopping_ = true; }

  private:
    Bytes answer_to(const PeerConnection& connection) const;
    void learn(const ConnectionPtr& connection, const wire::Identify& answer);
    Task<void> push();
    Task<void> push_to(ConnectionPtr connection);

    const Self self_;
    Swarm& swarm_;
    NatService& nat_;
    runtime::Scope& scope_;
    bool push_pending_ = false;
    bool stopping_ = false;
};

}  // namespace dedloc::p2p
