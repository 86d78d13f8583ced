// LimitedNetwork: a network whose connections together send and receive no faster than the user
// wants. It stands where bytes go to sockets, so everything obeys: parts, states, the DHT, and what
// is relayed for others.
//
// Sending waits before each portion. Receiving waits after it: what came is passed on, and the next
// read begins when it is paid; until then the connection's window makes the sender wait. The system
// takes some 90 KB a connection of its own accord (measured; TCP_WINDOW_CLAMP does not change it):
// they come on top once, and on a way that is capped to little and that many fill, a message waits
// behind them.
//
// Counted is what goes through sockets; packet headers, some 3 %, come on top. Connections that
// stay on this machine count as well.
//
// Thread: the network thread. Cost: while a way has no cap, one comparison for each read or write;
// a peer without any cap has no LimitedNetwork at all.

#pragma once
#include <memory>

#include "dedloc/runtime/network.h"
#include "dedloc/runtime/rate_limiter.h"

namespace dedloc::runtime {

// Bytes per second; 0: as many as the line carries.
struct LineCaps {
    double up = 0;
    double down = 0;

    friend bool operator==(const LineCaps&, const LineCaps&) = default;
};

class LimitedNetwork final : public Network {
  public:
    // Both must outlive it and its connections.
    LimitedNetwork(Network& line, Clock& clock);

    // Connections that are open obey as well, from their next portion on.
    void set_caps(const LineCaps& caps);
    const LineCaps& caps() const { return caps_; }

    Task<Result<std::unique_ptr<Connection>>> connect(SocketAddress address,
                                                      TimePoint deadline) override;
    Task<Result<std::unique_ptr<Connection>>> connect_from(std::uint16_t local_port,
                                                           SocketAddress address,
                                                           TimePoint deadline) override;
    Result<std::unique_ptr<Listener>> listen(const SocketAddress& address) override;
    std::vector<std::string> interface_addresses() const override;
    std::vector<std::string> outward_addresses() const override;
    std::size_t connections_allowed() const override { return line_.connections_allowed(); }
    Traffic traffic() const override { return line_.traffic(); }

    struct Ways;  // the two limiters

  private:
    Network& line_;
    std::shared_ptr<Ways> ways_;
    LineCaps caps_;
};

}  // namespace dedloc::runtime
