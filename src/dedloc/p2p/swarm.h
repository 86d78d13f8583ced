// Swarm: the connections of one host. It listens, dials by id from known addresses, keeps one
// connection between two peers, notices when they come and go. Its parts, each with a state of its
// own:
//
//   ConnectionTable  what is open, which of two is used     Dialler      reaches peers
//   Door             lets peers in                          HolePuncher  through NATs
//   Strangers        bounds their cost                      Lanes        bundles for bulk
//   ConnectionTrimmer  which connections may go
//
// Thread: the network thread. Limits: limits.h. Errors: timeout, peer_gone, overloaded.

#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dedloc/p2p/dialler.h"
#include "dedloc/p2p/door.h"

namespace dedloc::p2p {

class Swarm {
  public:
    using Options = SwarmOptions;

    Swarm(Options options, runtime::Scope& scope);
    ~Swarm();

    // Set before anything is dialled or listened on.
    std::function<void(ConnectionPtr, std::shared_ptr<transport::YamuxStream>)> on_stream;
    std::function<void(ConnectionPtr)> on_connection;            // every new one
    std::function<void(const PeerId&, bool connected)> on_peer;  // the first, the last of a peer

    // Errors: bad_input, local_fault.
    Ok listen(const std::vector<std::string>& multiaddrs);
    std::vector<runtime::SocketAddress> listen_addresses() const;

    // `is_bulk`: on lanes where there are some.
    Task<Result<std::unique_ptr<transport::Stream>>> open_stream(PeerId peer,
                                                                 TimePoint deadline,
                                                                 bool is_bulk = false);
    void disconnect(const PeerId& peer, Error reason);
    // A call was not answered in time: its connections must show soon that they are alive.
    void doubt(const PeerId& peer);
    // Refuses what is new, closes the listeners, says good-bye, closes everything.
    Task<void> close_all();

    const ConnectionTable& table() const { return table_; }
    const PeerTraffic& traffic() const { return parts_.traffic; }
    NeededPeers& needed() { return parts_.needed; }
    const NeededPeers& needed() const { return parts_.needed; }
    Strangers& strangers() { return strangers_; }
    const Lanes& lanes() const { return lanes_; }
    Dialler& dialler() { return dialler_; }
    const Dialler& dialler() const { return dialler_; }
    HolePuncher& puncher() { return puncher_; }
    Door& door() { return door_; }

  private:
    ConnectionPtr make_connection(transport::SecureConnection secured, Origin origin);
    Result<ConnectionPtr> add(transport::SecureConnection secured, Origin origin);
    void remove(const PeerConnection* connection);

    const Options options_;
    SwarmParts parts_;
    ConnectionTable table_;
    Strangers strangers_;
    Lanes lanes_;
    ConnectionTrimmer trimmer_;
    Dialler dialler_;
    HolePuncher puncher_;
    Door door_;
};

}  // namespace dedloc::p2p
