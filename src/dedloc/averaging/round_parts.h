// The parts of a round share these references to what the coordinator owns.
//
// Thread: the network thread.

#pragma once
#include <functional>
#include <memory>
#include <string>

#include "dedloc/allreduce/exchanges.h"
#include "dedloc/averaging/announcements.h"
#include "dedloc/averaging/leader_election.h"
#include "dedloc/averaging/open_round.h"
#include "dedloc/averaging/own_link.h"
#include "dedloc/consensus/acceptor.h"
#include "dedloc/runtime/scope.h"

namespace dedloc::averaging {

struct RoundParts {
    const RoundEnvironment& environment;
    const allreduce::TransferEnvironment& transfers;
    consensus::PeerScore& scores;
    links::Timeouts& timeouts;
    events::Complaints& complaints;
    allreduce::Exchanges& exchanges;
    const consensus::Acceptor& acceptor;
    OpenRound& open;
    Announcements& announcements;
    OwnLink& link;
    LeaderElection& election;
    runtime::Scope& scope;
    // Is told of each exchange that begins.
    std::function<void(const std::shared_ptr<allreduce::Exchange>&)> on_exchange{};
};

// This peer's announcement of itself for the open step.
Announce own_announcement(const RoundParts& parts, const consensus::Base& base);
// A plan that is checked, or ours.
std::shared_ptr<allreduce::Exchange> begin_exchange(RoundParts& parts,
                                                    consensus::RoundPlan plan,
                                                    const Digest& digest);
// A call whose answer nobody needs.
Task<void> send(const RoundParts& parts, PeerId peer, std::string method, Bytes message);

}  // namespace dedloc::averaging
