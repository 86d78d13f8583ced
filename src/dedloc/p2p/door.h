// Door: connections from others come in here: over TCP, over a relay's circuit, through a hole.
// Until a peer has shown who it is, it sits on one of a few seats.
//
// Thread: the network thread. Limits: handshakes_inbound_max, and those of strangers.

#pragma once
#include <memory>
#include <string>
#include <vector>

#include "dedloc/p2p/connection_trimmer.h"
#include "dedloc/p2p/hole_puncher.h"
#include "dedloc/transport/inbound_handshakes.h"

namespace dedloc::p2p {

class Door {
  public:
    Door(SwarmParts& parts,
         HolePuncher& puncher,
         Lanes& lanes,
         Strangers& strangers,
         ConnectionTrimmer& trimmer)
        : parts_(parts),
          puncher_(puncher),
          lanes_(lanes),
          strangers_(strangers),
          trimmer_(trimmer) {}

    // Accepts what comes to the listeners, from now on.
    void open();
    // Begins to upgrade a circuit that `caller` opened to us; the relay's word for who it is must
    // be true. overloaded: there is no room.
    Ok receive_circuit(std::shared_ptr<transport::Stream> stream, PeerId caller, PeerId relay);

  private:
    using SeatPtr = std::unique_ptr<transport::InboundHandshakes::Seat>;

    Task<void> accept_loop(std::shared_ptr<runtime::Listener> listener);
    SeatPtr seat_for(const std::string& ip);
    // `handshake` holds the seat of that number.
    void start_handshake(std::string name, std::uint64_t seat, Task<void> handshake);
    Task<void> receive_inbound(std::unique_ptr<runtime::Connection> raw, SeatPtr seat);
    Task<void> punch_accepted(HolePuncher::PunchPtr punch,
                              std::unique_ptr<runtime::Connection> raw,
                              SeatPtr seat);
    Task<void> upgrade_circuit(std::shared_ptr<transport::Stream> stream,
                               PeerId caller,
                               PeerId relay,
                               SeatPtr seat);
    Result<ConnectionPtr> add_circuit(Result<transport::SecureConnection> secured,
                                      const PeerId& caller,
                                      const PeerId& relay);

    SwarmParts& parts_;
    HolePuncher& puncher_;
    Lanes& lanes_;
    Strangers& strangers_;
    ConnectionTrimmer& trimmer_;
    transport::InboundHandshakes seats_;
};

}  // namespace dedloc::p2p
