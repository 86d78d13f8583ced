// Handlers: the calls and streams that one object answers, for as long as it lives.
//
// A host's handlers are tasks of the host, and one that waits could outlive the object whose
// method it is. These cannot: stop() takes the methods off the host, cancels what is still being
// answered (the caller hears peer_gone), and returns when the last has ended.
//
// Thread: the host's network thread. Lifetime: stop() before destruction, the host's own stop()
// first or later. Cost beside the handler's own: about 1 µs.

#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dedloc/p2p/host.h"
#include "dedloc/runtime/children.h"

namespace dedloc::p2p {

class Handlers {
  public:
    explicit Handlers(Host& host);
    ~Handlers();
    Handlers(const Handlers&) = delete;
    Handlers& operator=(const Handlers&) = delete;

    void on_call(const std::string& method, CallHandler handler);
    void on_stream(const std::string& method, StreamHandler handler);
    // `listener(peer, connected)` as in Host, but only until stop().
    void on_connection(std::function<void(const PeerId&, bool)> listener);
    // May be called repeatedly. Not from one of these handlers: it would wait for itself.
    Task<void> stop();

  private:
    Host& host_;
    std::shared_ptr<runtime::Children> answers_;
    std::vector<std::string> methods_;
};

}  // namespace dedloc::p2p
