// DCUtR: two peers that are connected over a relay agree on addresses and on a moment to dial each
// other, so that each NAT lets the other's packets in (a hole is punched).
//
// B is who received the relayed connection, A who dialled it. B opens a stream on it:
//   B → A CONNECT(addresses), A → B CONNECT(addresses), B → A SYNC
// A dials when SYNC arrives, B half a round trip after it was sent. Over TCP both dial from their
// listen ports; the kernel joins the two SYNs.
//
// On the new connection A is the client, by the specification. hivemind's daemon and go-libp2p
// before 0.41 do it the other way round; go-libp2p from 0.48 tries that too, the third time.
//
// Source: libp2p specs/relay/DCUtR. Limits: limits.h. Thread: the network thread.
// Errors: peer_broke_protocol, peer_gone, timeout, unsupported.

#pragma once
#include <memory>
#include <string_view>
#include <vector>

#include "dedloc/transport/stream.h"
#include "dedloc/wire/multiaddr.h"

namespace dedloc::p2p {

enum class PunchSide { a, b };  // who dialled the relayed connection, who received it

// Attempts count from 1.
bool punches_as_client(PunchSide side, int attempt, std::string_view agent_of_other);

// Each returns the other's addresses at the moment to dial. The stream is new, `propose`d by B or
// accepted by A; its deadline bounds the whole.
Task<Result<std::vector<wire::Multiaddr>>> arrange_punch(std::shared_ptr<transport::Stream> stream,
                                                         std::vector<wire::Multiaddr> own,
                                                         runtime::Clock& clock);
Task<Result<std::vector<wire::Multiaddr>>> answer_punch(std::shared_ptr<transport::Stream> stream,
                                                        std::vector<wire::Multiaddr> own);

}  // namespace dedloc::p2p
