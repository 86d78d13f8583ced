// Host: authenticated peers, calls and message streams. The seam between the protocols of this
// house and the network under them: p2p::make_host speaks libp2p over runtime::Network;
// sim::SimHost carries the same calls over virtual links.
//
// Peers are dialled by id from addresses that were added; connections are opened when needed, one
// between two peers, and kept. A remote PeerId given to a handler is authenticated.
//
// Method names are libp2p protocol ids ("DHTProtocol.rpc_ping", "/dedloc/round/1/announce").
// Calls use hivemind's unary framing, message streams its streaming framing
// (reference: docs/spec/rpc.md).
//
// Limits: a call's request and answer ≤ call_bytes_max; a stream message ≤ message_bytes_max.
// Errors of all waits: timeout (deadline), peer_gone (unreachable, connection lost, host stopped),
// unsupported (the peer has no such method), peer_broke_protocol, overloaded (its limits).
// A handler's own Error travels to the caller with its kind and message.
// Thread: the node's network thread.

#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/base/peer_id.h"
#include "dedloc/base/result.h"
#include "dedloc/base/shared_bytes.h"
#include "dedloc/base/time.h"
#include "dedloc/runtime/clock.h"
#include "dedloc/runtime/task.h"
#include "dedloc/runtime/traffic.h"

namespace dedloc::p2p {

inline constexpr std::size_t call_bytes_max = (4u << 20) - 256;
// hivemind's expert servers cut tensors into 4 MiB and put a head before each.
inline constexpr std::size_t message_bytes_max = (4u << 20) + 4096;

// One bidirectional stream of whole messages. Destroying it resets it. At most one read and one
// write at a time.
class MessageStream {
  public:
    virtual ~MessageStream() = default;
    virtual const PeerId& remote() const = 0;
    // Returns when the message is on its way (flow control: waits while the peer is not reading).
    virtual Task<Result<void>> write(Bytes message) = 0;
    // One message of two pieces; the body is sent from where it lies.
    virtual Task<Result<void>> write_with_body(Bytes head, SharedBytes body) = 0;
    // nullopt: the other side has finished.
    virtual Task<Result<std::optional<SharedBytes>>> read() = 0;
    // Says that no more messages follow from us; reading goes on.
    virtual Task<Result<void>> finish() = 0;
    // The handler's way to end with an error; the other side's read() returns it.
    virtual Task<Result<void>> fail(Error error) = 0;
    virtual void reset() = 0;
};

using CallHandler = std::function<Task<Result<Bytes>>(PeerId from, Bytes request)>;
using StreamHandler = std::function<Task<void>(std::unique_ptr<MessageStream> stream)>;

class Host {
  public:
    virtual ~Host() = default;

    virtual const PeerId& id() const = 0;
    virtual runtime::Executor executor() const = 0;
    virtual runtime::Clock& clock() const = 0;

    // Multiaddrs others may dial, without /p2p/<id>. Empty: client mode.
    virtual std::vector<std::string> addresses() const = 0;

    // Addresses to dial a peer by; kept for the most recent peers (bounded).
    virtual void add_addresses(const PeerId& peer, const std::vector<std::string>& addresses) = 0;
    virtual std::vector<std::string> addresses_of(const PeerId& peer) const = 0;

    // Connects to whoever answers at a multiaddr; with /p2p/<id> only to that peer.
    virtual Task<Result<PeerId>> dial(std::string multiaddr, TimePoint deadline) = 0;
    virtual Task<Result<void>> connect(PeerId peer, TimePoint deadline) = 0;
    virtual bool is_connected(const PeerId& peer) const = 0;
    virtual std::vector<PeerId> connected_peers() const = 0;  // sorted
    virtual void disconnect(const PeerId& peer) = 0;
    // A connection that nobody uses is closed after a while, and one makes room when there are too
    // many; those to a protected peer are not. Whoever protects says when that is over.
    virtual void protect(const PeerId& peer, bool needed) = 0;
    // This peer has shown that it belongs here, though it is no member: it is none of the
    // strangers, who are served sparingly, as long as it is connected.
    virtual void vouch(const PeerId&) {}
    // `listener(peer, connected)`, after the fact, on the network thread; registered for good.
    virtual void on_connection(std::function<void(const PeerId&, bool)> listener) = 0;

    virtual Task<Result<Bytes>> call(PeerId peer,
                                     std::string method,
                                     Bytes request,
                                     TimePoint deadline) = 0;
    virtual Task<Result<std::unique_ptr<MessageStream>>> open_stream(PeerId peer,
                                                                     std::string method,
                                                                     TimePoint deadline) = 0;
    // Handlers run as tasks of the host; a handler is cancelled when the caller gives up or the
    // connection is lost. Registering a method twice is our bug. remove_handler waits for nothing.
    virtual void handle_call(const std::string& method, CallHandler handler) = 0;
    virtual void handle_stream(const std::string& method, StreamHandler handler) = 0;
    virtual void remove_handler(const std::string& method) = 0;

    // Round trip time, smoothed over what was measured so far; nullopt before the first.
    virtual std::optional<Duration> round_trip(const PeerId& peer) const = 0;
    // Over the machine's line, with everybody together, relayed and forwarded bytes included.
    virtual runtime::Traffic traffic() const = 0;

    // Closes everything and joins all tasks; handlers are cancelled.
    virtual Task<void> stop() = 0;
};

}  // namespace dedloc::p2p
