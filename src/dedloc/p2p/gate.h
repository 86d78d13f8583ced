// Gate: decides who may speak which protocol with a host. A host asks it before any handler hears
// of a caller, whoever registered the handler and when, so that no protocol of a run, present or to
// come, is open to strangers because somebody forgot to ask.
//
// A run's gate (collab::RunGate) lets members speak everything, and strangers what it lists by
// name. A host without a gate is part of no run: everybody may speak with it.
//
// libp2p's own protocols, which a host answers by itself, have no handlers; `own_protocols` says
// why strangers may speak each.
//
// Thread: the network thread; answers at once.

#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/peer_id.h"
#include "dedloc/base/result.h"

namespace dedloc::p2p {

class Gate {
  public:
    virtual ~Gate() = default;
    // Errors: denied, in a sentence for the caller.
    virtual Ok admits(const PeerId& from, std::string_view method) const = 0;
};

// The part of every Host that has the gate. Its implementation asks may_speak() before each call
// and stream that it hands to a handler.
class GatedHost {
  public:
    virtual ~GatedHost() = default;
    // From now on nobody speaks with a handler of this host, old or new, whom the gate refuses.
    void set_gate(std::shared_ptr<const Gate> gate) { gate_ = std::move(gate); }
    // Errors: denied, in a sentence for `from`.
    Ok may_speak(const PeerId& from, std::string_view method) const {
        return gate_ ? gate_->admits(from, method) : Ok();
    }
    virtual std::vector<std::string> methods() const = 0;  // that have a handler, sorted

  private:
    std::shared_ptr<const Gate> gate_;
};

class Host;
GatedHost& gate_of(Host& host);

// A protocol that strangers may speak, and why.
struct OpenProtocol {
    std::string_view name;
    std::string_view reason;
};

std::span<const OpenProtocol> own_protocols();

}  // namespace dedloc::p2p
