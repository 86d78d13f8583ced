// A dial under way: the two sources of Dialler share it.
#pragma once
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dedloc/p2p/dialler.h"
#include "dedloc/runtime/event.h"

namespace dedloc::p2p {

struct Dialler::Dial {
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

}  // namespace dedloc::p2p
