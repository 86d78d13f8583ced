// AutoNAT v1: asks a peer to dial us back, and does so for others.
//
// The server dials only the IP address it sees the asker at, whatever the asker says, only public
// ones, as a stranger from another port; a failure is answered after the whole dialling time, so
// that it is no port scanner for hire.
//
// Source: libp2p specs/autonat. Limits: limits.h. Thread: the network thread.
// Errors (client): as of streams; peer_broke_protocol.

#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "dedloc/p2p/connection.h"
#include "dedloc/p2p/nat.h"
#include "dedloc/wire/multiaddr.h"
#include "dedloc/wire/relay_messages.h"

namespace dedloc::p2p {

struct DialledBack {
    wire::AutonatStatus status = wire::AutonatStatus::internal_error;
    std::optional<wire::Multiaddr> address;  // that was reached
};

Task<Result<DialledBack>> ask_dial_back(std::shared_ptr<PeerConnection> server,
                                        PeerId me,
                                        std::vector<wire::Multiaddr> addresses,
                                        TimePoint deadline);

class AutonatServer {
  public:
    using ConnectionPtr = std::shared_ptr<PeerConnection>;
    using DialBack =
        std::function<Task<Result<void>>(wire::Multiaddr address, PeerId peer, TimePoint deadline)>;

    AutonatServer(runtime::Executor executor,
                  runtime::Clock& clock,
                  std::function<bool(std::string_view ip)> is_public,
                  DialBack dial_back)
        : executor_(std::move(executor)),
          clock_(clock),
          is_public_(std::move(is_public)),
          dial_back_(std::move(dial_back)) {}

    Task<void> serve(ConnectionPtr connection, std::shared_ptr<transport::Stream> stream);

    // Addresses of a request that we would dial, with the observed IP put in, each once.
    static std::vector<wire::Multiaddr> to_dial(const std::vector<Bytes>& asked,
                                                const std::string& observed_ip);

  private:
    struct Search;
    Task<DialledBack> answer(ConnectionPtr connection, Bytes request);
    Task<void> try_address(std::shared_ptr<Search> search, wire::Multiaddr address);
    bool take_turn(const PeerId& peer);

    runtime::Executor executor_;
    runtime::Clock& clock_;
    std::function<bool(std::string_view ip)> is_public_;
    DialBack dial_back_;
    std::deque<std::pair<TimePoint, PeerId>> turns_;  // of the last minute
};

}  // namespace dedloc::p2p
