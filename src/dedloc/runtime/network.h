// Byte streams between machines as a parameter: TCP in the real world, virtual links in sim.
//
// Thread: the node's network thread.

#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "dedloc/base/bytes.h"
#include "dedloc/base/result.h"
#include "dedloc/base/time.h"
#include "dedloc/runtime/task.h"
#include "dedloc/runtime/traffic.h"

namespace dedloc::runtime {

struct SocketAddress {
    std::string host;        // an IPv4 or IPv6 literal, or a DNS name (connect only)
    std::uint16_t port = 0;  // 0 with listen: the system chooses

    std::string text() const;  // "127.0.0.1:80", "[::1]:80"
    friend auto operator<=>(const SocketAddress&, const SocketAddress&) = default;
};

// One connection. Destroying it closes it. At most one read and one write at a time.
class Connection {
  public:
    virtual ~Connection() = default;
    // At least one byte, or 0 when the other side has closed its direction.
    // Errors: peer_gone (reset, unreachable).
    virtual Task<Result<std::size_t>> read_some(std::span<std::uint8_t> into) = 0;
    // All of it. `bytes` must stay alive until the Task ends. Errors: peer_gone.
    virtual Task<Result<void>> write(ByteView bytes) = 0;
    // Ends both directions; pending reads and writes end with peer_gone.
    virtual void close() = 0;
    virtual SocketAddress local() const = 0;
    virtual SocketAddress remote() const = 0;
    // The shortest that the network itself was seen to take there and back, without what programs
    // at both ends take; nullopt where that is not known. Cost: a system call.
    virtual std::optional<Duration> network_round_trip() const { return std::nullopt; }
};

class Listener {
  public:
    virtual ~Listener() = default;
    // Errors: cancelled after close(); overloaded (out of descriptors or memory: another
    // connection has to be closed first); local_fault (again later).
    virtual Task<Result<std::unique_ptr<Connection>>> accept() = 0;
    virtual SocketAddress local() const = 0;  // with the port that was chosen
    virtual void close() = 0;
};

class Network {
  public:
    virtual ~Network() = default;
    // Errors: timeout, peer_gone (refused, unreachable), not_found (DNS).
    virtual Task<Result<std::unique_ptr<Connection>>> connect(SocketAddress address,
                                                              TimePoint deadline) = 0;
    // The same, from a local port that a listener of ours has too: a NAT then maps both alike,
    // which is what hole punching needs. `local_port` 0, and networks without that, do what
    // connect() does. `address.host` is an IP literal. Errors also: local_fault (that pair of
    // addresses is in use).
    virtual Task<Result<std::unique_ptr<Connection>>> connect_from(std::uint16_t local_port,
                                                                   SocketAddress address,
                                                                   TimePoint deadline);
    // Errors: local_fault ("port 4001 is in use by another program; choose another with …").
    virtual Result<std::unique_ptr<Listener>> listen(const SocketAddress& address) = 0;
    // The addresses of this machine's own interfaces that others might reach (no loopback unless
    // there is nothing else), the likeliest first; used when listening on 0.0.0.0.
    virtual std::vector<std::string> interface_addresses() const = 0;
    // The addresses that tell in which network this machine is: without bridges to machines within
    // it, and without loopback. Empty: it is in none at the moment.
    virtual std::vector<std::string> outward_addresses() const { return interface_addresses(); }
    // So many connections may be open at once without anything else of this process being short.
    virtual std::size_t connections_allowed() const {
        return std::numeric_limits<std::size_t>::max();
    }
    // Counts all connections so far, open or closed. Nothing for networks that do not count. Cost:
    // a system call for each connection that has bytes on their way.
    virtual Traffic traffic() const { return {}; }
};

}  // namespace dedloc::runtime
