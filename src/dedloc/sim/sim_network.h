// SimNetwork: runtime::Network on the world's links. Streams of bytes with latency, rates, cuts and
// refusals, for testing p2p itself; protocols above p2p use SimHost, which is far cheaper.
//
// Thread: the world's.

#pragma once
#include <map>
#include <memory>

#include "dedloc/runtime/network.h"
#include "dedloc/sim/world.h"

namespace dedloc::sim {

struct PortState;
class ByteWire;

class SimNetwork final : public runtime::Network {
  public:
    explicit SimNetwork(Process& process);
    ~SimNetwork() override;

    Task<Result<std::unique_ptr<runtime::Connection>>> connect(runtime::SocketAddress address,
                                                               TimePoint deadline) override;
    Result<std::unique_ptr<runtime::Listener>> listen(
        const runtime::SocketAddress& address) override;
    std::vector<std::string> interface_addresses() const override;
    runtime::Traffic traffic() const override;

    void forget_listeners();  // the process has died

  private:
    struct Attempt;
    void attempt_arrives(const std::shared_ptr<Attempt>& attempt);

    Process& process_;
    World& world_;
    std::map<std::uint16_t, std::weak_ptr<PortState>> ports_;
    std::uint16_t next_port_ = 30000;
};

}  // namespace dedloc::sim
