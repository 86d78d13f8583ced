// The Host of make_host.h on real connections: it serves what peers ask, calls them, tells them
// about itself (identify). Its methods are in make_host.cpp and host_identify.cpp.
//
// Thread: the network thread.

#pragma once
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dedloc/base/check.h"
#include "dedloc/p2p/diagnostics.h"
#include "dedloc/p2p/gate.h"
#include "dedloc/p2p/kad_find_node.h"
#include "dedloc/p2p/make_host.h"
#include "dedloc/p2p/nat_service.h"
#include "dedloc/p2p/rpc.h"
#include "dedloc/p2p/swarm.h"

namespace dedloc::p2p {

using ConnectionPtr = std::shared_ptr<PeerConnection>;

// A call or stream that is being served.
struct Serving {
    runtime::TaskId task = 0;
};

class Libp2pHost final : public Host, public GatedHost, public NatView, public PeerView {
  public:
    Libp2pHost(HostOptions options, std::shared_ptr<const transport::UpgradeContext> upgrades)
        : options_(std::move(options)),
          upgrades_(std::move(upgrades)),
          random_(options_.random.fork("p2p")),
          scope_(options_.executor),
          swarm_(swarm_options(), scope_),
          finder_(
              swarm_,
              options_.identity.id(),
              [this] { return own_addresses(); },
              options_.clock,
              options_.nat.is_public),
          nat_(options_.nat, nat_surroundings()) {
        swarm_.on_stream = [this](ConnectionPtr connection,
                                  std::shared_ptr<transport::YamuxStream> stream) {
            take_stream(std::move(connection), std::move(stream));
        };
        swarm_.on_connection = [this](ConnectionPtr connection) {
            nat_.connected(connection);
            scope_.spawn("p2p identify", identify(std::move(connection)));
        };
        swarm_.on_not_reached = [this](const PeerId&) { nat_.not_reached(); };
        swarm_.on_peer = [this](const PeerId& peer, bool connected) {
            if (!connected) {
                nat_.peer_gone(peer);
                if (swarm_.is_stranger(peer)) swarm_.addresses().forget_hearsay(peer);
            }
            for (const auto& listener : listeners_) listener(peer, connected);
        };
    }
    ~Libp2pHost() override {
        DEDLOC_CHECK(scope_.running() == 0, "a Host was destroyed before stop()");
    }

    Ok listen() {
        for (const std::string& text : options_.announce)
            DEDLOC_TRY_VOID(wire::Multiaddr::from_text(text));
        DEDLOC_TRY_VOID(swarm_.listen(options_.listen));
        nat_.start();
        return {};
    }

    const PeerId& id() const override { return options_.identity.id(); }
    runtime::Executor executor() const override { return options_.executor; }
    runtime::Clock& clock() const override { return options_.clock; }
    std::vector<std::string> addresses() const override;

    void add_addresses(const PeerId& peer, const std::vector<std::string>& addresses) override;
    std::vector<std::string> addresses_of(const PeerId& peer) const override;

    Task<Result<PeerId>> dial(std::string multiaddr, TimePoint deadline) override;
    Task<Result<void>> connect(PeerId peer, TimePoint deadline) override;
    bool is_connected(const PeerId& peer) const override { return swarm_.best(peer) != nullptr; }
    std::vector<PeerId> connected_peers() const override { return swarm_.peers(); }
    void disconnect(const PeerId& peer) override {
        swarm_.disconnect(peer, Error(ErrorKind::peer_gone, "we closed the connection"));
    }
    void protect(const PeerId& peer, bool needed) override {
        swarm_.protect(peer, needed);
        if (needed) nat_.befriended(peer);
    }
    void vouch(const PeerId& peer) override { swarm_.vouch(peer); }
    void on_connection(std::function<void(const PeerId&, bool)> listener) override {
        listeners_.push_back(std::move(listener));
    }

    Task<Result<Bytes>> call(PeerId peer,
                             std::string method,
                             Bytes request,
                             TimePoint deadline) override;
    Task<Result<std::unique_ptr<MessageStream>>> open_stream(PeerId peer,
                                                             std::string method,
                                                             TimePoint deadline) override;
    void handle_call(const std::string& method, CallHandler handler) override;
    void handle_stream(const std::string& method, StreamHandler handler) override;
    void remove_handler(const std::string& method) override;
    std::vector<std::string> methods() const override;

    std::optional<Duration> round_trip(const PeerId& peer) const override {
        const ConnectionPtr connection = swarm_.best(peer);
        if (!connection) return std::nullopt;
        return connection->session().round_trip();
    }
    runtime::Traffic traffic() const override { return options_.network.traffic(); }
    Task<void> stop() override;

    NatReport nat_report() const override { return nat_.report(); }
    Path path_to(const PeerId& peer) const override {
        const ConnectionPtr connection = swarm_.best(peer);
        return connection ? connection->origin().path : Path::none;
    }
    bool is_punching(const PeerId& peer) const override { return nat_.is_punching(peer); }

    std::optional<PeerFacts> facts_of(const PeerId& peer) const override;
    Task<Result<Duration>> ping(PeerId peer, TimePoint deadline) override;
    Task<Result<std::vector<std::string>>> find_peer(PeerId peer, TimePoint deadline) override;

  private:
    struct Handler {
        std::string method;
        CallHandler call;
        StreamHandler stream;
    };
    struct Load {
        std::size_t tasks = 0;
        std::size_t handlers = 0;
        std::size_t pings = 0;
        std::size_t kads = 0;
        std::size_t pushes = 0;
    };
    class LoadGuard;
    using HandlerPtr = std::shared_ptr<Handler>;

    Swarm::Options swarm_options() const {
        return {.executor = options_.executor,
                .clock = options_.clock,
                .network = options_.network,
                .identity = options_.identity,
                .upgrades = upgrades_,
                .keep_alive_interval = options_.keep_alive_interval,
                .keep_alive_answer_max = options_.keep_alive_answer_max,
                .connections_max =
                    std::min(options_.connections_max, options_.network.connections_allowed()),
                .is_needed = [this](const PeerId& peer) { return nat_.needs(peer); },
                .limits_strangers = options_.strangers == HostOptions::Strangers::limited,
                .memory_bytes = options_.memory_bytes,
                .from_listen_port =
                    [this](const std::string& host) { return nat_.dials_from_listen_port(host); }};
    }
    NatService::Surroundings nat_surroundings();
    std::vector<wire::Multiaddr> listeners_at(const std::vector<std::string>& machine) const;
    std::vector<wire::Multiaddr> own_addresses() const;
    Task<void> locate(PeerId peer, TimePoint deadline);
    wire::CallId new_call_id();
    std::shared_ptr<MethodFacts> facts_of_method(const std::string& method);
    void add_handler(const std::string& method, Handler handler);
    bool offers(const std::string& protocol) const;
    void take_stream(ConnectionPtr connection, std::shared_ptr<transport::YamuxStream> stream);
    Task<void> serve(ConnectionPtr connection,
                     std::shared_ptr<transport::Stream> stream,
                     std::shared_ptr<Serving> serving,
                     std::shared_ptr<LoadGuard> guard);
    Task<void> serve_call(std::shared_ptr<transport::Stream> stream,
                          std::shared_ptr<Serving> serving,
                          HandlerPtr handler,
                          bool overloaded);
    Task<void> serve_stream(std::shared_ptr<transport::Stream> stream,
                            std::shared_ptr<Serving> serving,
                            HandlerPtr handler,
                            bool overloaded);
    Task<void> identify(ConnectionPtr connection);
    void learn(const ConnectionPtr& connection, const wire::Identify& answer);
    Task<void> take_push(ConnectionPtr connection, std::shared_ptr<transport::Stream> stream);
    void push_identify_soon();
    Task<void> push_identify();
    Task<void> push_to(ConnectionPtr connection);
    Bytes identify_answer(const PeerConnection& connection) const;

    HostOptions options_;
    std::shared_ptr<const transport::UpgradeContext> upgrades_;
    Random random_;
    runtime::Scope scope_;
    Swarm swarm_;
    PeerFinder finder_;
    NatService nat_;
    std::map<std::string, HandlerPtr> handlers_;
    std::map<std::string, std::shared_ptr<MethodFacts>> methods_;  // that we have called
    std::vector<std::function<void(const PeerId&, bool)>> listeners_;
    std::map<PeerId, Load> loads_;
    bool stopping_ = false;
    bool push_pending_ = false;
};

}  // namespace dedloc::p2p
