// SimHost: p2p::Host on virtual connections. Same promises, no cryptography, no bytes of framing;
// identity is believed because the world says it.
//
// Differences from the real host that a protocol could see: round_trip is the links' own and is
// known at once; opening a connection takes two round trips; open_stream takes one.
//
// Cost: about 3 µs of processor time a delivered message (sim_bench.cpp).

#pragma once
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <unordered_map>
#include <vector>

#include "dedloc/p2p/gate.h"
#include "dedloc/p2p/host.h"
#include "dedloc/runtime/event.h"
#include "dedloc/runtime/scope.h"
#include "dedloc/sim/world.h"

namespace dedloc::sim {

class HostWire;

// Calls and streams of one peer that a host serves at once; more are refused as overloaded.
inline constexpr std::size_t incoming_calls_max = 1024;
inline constexpr std::size_t incoming_streams_max = 256;

class SimHost final : public p2p::Host, public p2p::GatedHost {
  public:
    explicit SimHost(Process& process);
    ~SimHost() override;

    const PeerId& id() const override;
    runtime::Executor executor() const override;
    runtime::Clock& clock() const override;
    std::vector<std::string> addresses() const override;
    void add_addresses(const PeerId& peer, const std::vector<std::string>& addresses) override;
    std::vector<std::string> addresses_of(const PeerId& peer) const override;
    Task<Result<PeerId>> dial(std::string multiaddr, TimePoint deadline) override;
    Task<Result<void>> connect(PeerId peer, TimePoint deadline) override;
    bool is_connected(const PeerId& peer) const override;
    std::vector<PeerId> connected_peers() const override;
    void disconnect(const PeerId& peer) override;
    void protect(const PeerId&, bool) override {}  // its connections cost nothing and stay
    void on_connection(std::function<void(const PeerId&, bool)> listener) override;
    Task<Result<Bytes>> call(PeerId peer,
                             std::string method,
                             Bytes request,
                             TimePoint deadline) override;
    Task<Result<std::unique_ptr<p2p::MessageStream>>> open_stream(PeerId peer,
                                                                  std::string method,
                                                                  TimePoint deadline) override;
    void handle_call(const std::string& method, p2p::CallHandler handler) override;
    void handle_stream(const std::string& method, p2p::StreamHandler handler) override;
    void remove_handler(const std::string& method) override;
    std::vector<std::string> methods() const override;
    std::optional<Duration> round_trip(const PeerId& peer) const override;
    runtime::Traffic traffic() const override;
    Task<void> stop() override;

    bool is_stopped() const;
    void process_died();  // its machine refuses whom it has not answered yet

  private:
    friend class HostWire;
    struct Dial;

    Error why_cut_off() const;
    bool cut_off() const;
    std::shared_ptr<HostWire> wire_to(const PeerId& peer) const;
    SimNode* locate(const PeerId& peer, std::optional<Error>& why) const;
    void start_dial(std::shared_ptr<Dial> dial);
    void refuse(const std::shared_ptr<Dial>& dial);  // the target's machine says no
    void dial_arrives(const std::shared_ptr<Dial>& dial);
    void accept_from(SimHost& dialler, const std::shared_ptr<Dial>& dial);
    void finish_dial(const std::shared_ptr<Dial>& dial, std::optional<Error> error);
    void add_wire(const PeerId& peer, std::shared_ptr<HostWire> wire);
    void wire_closed(const PeerId& peer, const HostWire& wire);
    Task<Result<std::shared_ptr<HostWire>>> reach(PeerId peer, TimePoint deadline);

    Process& process_;
    World& world_;
    runtime::Scope scope_;
    bool stopping_ = false;
    std::map<PeerId, std::vector<std::string>> addresses_;
    std::unordered_map<PeerId, std::shared_ptr<HostWire>> wires_;  // never iterated
    std::set<PeerId> connected_;
    std::map<PeerId, std::shared_ptr<Dial>> dials_;
    std::vector<std::pair<SimHost*, std::shared_ptr<Dial>>> knocking_;  // at this host
    std::vector<std::function<void(const PeerId&, bool)>> listeners_;
    std::unordered_map<std::uint32_t, std::shared_ptr<p2p::CallHandler>> call_handlers_;
    std::unordered_map<std::uint32_t, std::shared_ptr<p2p::StreamHandler>> stream_handlers_;
};

}  // namespace dedloc::sim
