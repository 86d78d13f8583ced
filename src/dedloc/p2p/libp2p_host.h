// Libp2pHost: the Host of make_host.h on real connections. It joins a swarm, the NAT service, the
// finder of peers, identify and the server of methods, and calls others. What people and tests want
// to know beside that, its diagnostics tell.
//
// Thread: the network thread.

#pragma once
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "dedloc/base/check.h"
#include "dedloc/p2p/gate.h"
#include "dedloc/p2p/host_diagnostics.h"
#include "dedloc/p2p/identify_exchange.h"
#include "dedloc/p2p/kad_find_node.h"
#include "dedloc/p2p/make_host.h"
#include "dedloc/p2p/method_server.h"
#include "dedloc/p2p/nat_service.h"
#include "dedloc/p2p/rpc.h"
#include "dedloc/p2p/swarm.h"

namespace dedloc::p2p {

class Libp2pHost final : public Host, public GatedHost {
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
          nat_(options_.nat, nat_surroundings()),
          identify_({.clock = options_.clock,
                     .identity = options_.identity,
                     .agent_version = options_.agent_version,
                     .addresses = [this] { return addresses(); },
                     .protocols = [this] { return protocols(); }},
                    swarm_,
                    nat_,
                    scope_),
          methods_served_(options_.clock, scope_, *this, swarm_, [this] { identify_.push_soon(); }),
          diagnostics_(*this, swarm_, finder_, nat_, random_) {
        swarm_.on_stream = [this](ConnectionPtr connection,
                                  std::shared_ptr<transport::YamuxStream> stream) {
            receive_stream(std::move(connection), std::move(stream));
        };
        swarm_.on_connection = [this](ConnectionPtr connection) {
            nat_.connected(connection);
            scope_.spawn("p2p identify", identify_.ask(std::move(connection)));
        };
        swarm_.dialler().on_not_reached = [this](const PeerId&) { nat_.not_reached(); };
        swarm_.on_peer = [this](const PeerId& peer, bool connected) {
            if (!connected) {
                nat_.peer_gone(peer);
                if (swarm_.strangers().contain(peer))
                    swarm_.dialler().addresses().forget_hearsay(peer);
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
    bool is_connected(const PeerId& peer) const override {
        return swarm_.table().best(peer) != nullptr;
    }
    std::vector<PeerId> connected_peers() const override { return swarm_.table().peers(); }
    void disconnect(const PeerId& peer) override {
        swarm_.disconnect(peer, Error(ErrorKind::peer_gone, "we closed the connection"));
    }
    void protect(const PeerId& peer, bool needed) override {
        swarm_.needed().protect(peer, needed);
        if (needed) nat_.befriended(peer);
    }
    void vouch(const PeerId& peer) override { swarm_.strangers().vouch(peer); }
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
    void handle_call(const std::string& method, CallHandler handler) override {
        methods_served_.handle_call(method, std::move(handler));
    }
    void handle_stream(const std::string& method, StreamHandler handler) override {
        methods_served_.handle_stream(method, std::move(handler));
    }
    void remove_handler(const std::string& method) override { methods_served_.remove(method); }
    std::vector<std::string> methods() const override { return methods_served_.methods(); }

    std::optional<Duration> round_trip(const PeerId& peer) const override {
        const ConnectionPtr connection = swarm_.table().best(peer);
        if (!connection) return std::nullopt;
        return connection->session().round_trip();
    }
    runtime::Traffic traffic() const override { return options_.network.traffic(); }
    Task<void> stop() override;

    HostDiagnostics& diagnostics() { return diagnostics_; }
    const HostDiagnostics& diagnostics() const { return diagnostics_; }

  private:
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
    bool offers(const std::string& protocol) const;
    std::vector<std::string> protocols() const;
    void receive_stream(ConnectionPtr connection, std::shared_ptr<transport::YamuxStream> stream);
    Task<void> serve(ConnectionPtr connection,
                     std::shared_ptr<transport::Stream> stream,
                     std::shared_ptr<MethodServer::Serving> serving,
                     std::shared_ptr<StreamLoads::Guard> guard);

    HostOptions options_;
    std::shared_ptr<const transport::UpgradeContext> upgrades_;
    Random random_;
    runtime::Scope scope_;
    Swarm swarm_;
    PeerFinder finder_;
    NatService nat_;
    IdentifyExchange identify_;
    MethodServer methods_served_;
    HostDiagnostics diagnostics_;
    StreamLoads loads_;
    std::map<std::string, std::shared_ptr<MethodFacts>> methods_called_;
    std::vector<std::function<void(const PeerId&, bool)>> listeners_;
    bool stopping_ = false;
};

}  // namespace dedloc::p2p
