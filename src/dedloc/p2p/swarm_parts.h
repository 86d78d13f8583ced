// The two source files of Swarm share these: a dial under way, a hole being punched.

#pragma once
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "dedloc/p2p/swarm.h"
#include "dedloc/runtime/event.h"

namespace dedloc::p2p {

struct Swarm::Dial {
    Dial(PeerId to, std::vector<wire::Multiaddr> by, runtime::Executor executor)
        : peer(std::move(to)), addresses(std::move(by)), done(executor), next(executor) {}

    PeerId peer;
    std::vector<wire::Multiaddr> addresses;
    TimePoint started;
    runtime::Event done;
    runtime::Event next;  // an attempt has failed: the next one need not wait
    std::size_t failed = 0;
    std::string failures;  // for people
    std::optional<Ok> outcome;
    bool by_relay = false;  // it succeeded over a relay: what dials directly goes on
    std::vector<runtime::TaskId> tasks;
};

struct Swarm::Punch {
    Punch(PeerId to, bool client, TimePoint until, runtime::Executor executor)
        : peer(std::move(to)), as_client(client), deadline(until), done(std::move(executor)) {}

    PeerId peer;
    bool as_client;
    TimePoint deadline;
    std::set<runtime::SocketAddress> targets;
    runtime::Event done;
};

}  // namespace dedloc::p2p
