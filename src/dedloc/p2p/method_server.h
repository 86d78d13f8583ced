// MethodServer: serves the calls and streams of a host's own methods, as many of one peer's at a
// time as the limits say; each only if the gate lets the peer speak.
//
// Thread: the network thread. Limits: handlers_max methods; a peer's streams: limits.h.

#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dedloc/p2p/gate.h"
#include "dedloc/p2p/host.h"
#include "dedloc/p2p/swarm.h"

namespace dedloc::p2p {

// The streams that one peer has open with us, by what they are for. A stream is weighed for as long
// as its guard exists.
class StreamLoads {
  private:
    struct Load {
        std::size_t tasks = 0;
        std::size_t handlers = 0;
        std::size_t pings = 0;
        std::size_t kads = 0;
        std::size_t pushes = 0;
    };

  public:
    class Guard {
      public:
        Guard(StreamLoads& loads, PeerId peer);
        ~Guard();
        Guard(const Guard&) = delete;
        Guard& operator=(const Guard&) = delete;

        // False beyond the limit.
        bool becomes_handler();
        bool becomes_ping();
        bool becomes_kad();
        bool becomes_push();

      private:
        Load& load() { return loads_.peers_[peer_]; }

        StreamLoads& loads_;
        PeerId peer_;
        Load mine_;
    };

    std::size_t streams_of(const PeerId& peer) const;

  private:
    std::map<PeerId, Load> peers_;
};

class MethodServer {
  public:
    // A call or stream that is being served.
    struct Serving {
        runtime::TaskId task = 0;
    };

    MethodServer(runtime::Clock& clock,
                 runtime::Scope& scope,
                 const GatedHost& gate,
                 Swarm& swarm,
                 std::function<void()> on_change)
        : clock_(clock), scope_(scope), gate_(gate), swarm_(swarm), on_change_(on_change) {}

    void handle_call(const std::string& method, CallHandler handler);
    void handle_stream(const std::string& method, StreamHandler handler);
    void remove(const std::string& method);
    bool has(const std::string& method) const { return handlers_.contains(method); }
    std::vector<std::string> methods() const;

    // `overloaded`: the peer has too many of them open.
    Task<void> serve(std::string method,
                     std::shared_ptr<transport::Stream> stream,
                     std::shared_ptr<Serving> serving,
                     bool overloaded);

  private:
    struct Handler {
        std::string method;
        CallHandler call;
        StreamHandler stream;
    };
    using HandlerPtr = std::shared_ptr<Handler>;

    void add(const std::string& method, Handler handler);
    Task<void> serve_call(std::shared_ptr<transport::Stream> stream,
                          std::shared_ptr<Serving> serving,
                          HandlerPtr handler,
                          bool overloaded);
    Task<void> serve_stream(std::shared_ptr<transport::Stream> stream,
                            std::shared_ptr<Serving> serving,
                            HandlerPtr handler,
                            bool overloaded);

    runtime::Clock& clock_;
    runtime::Scope& scope_;
    const GatedHost& gate_;
    Swarm& swarm_;
    std::function<void()> on_change_;
    std::map<std::string, HandlerPtr> handlers_;
};

}  // namespace dedloc::p2p
