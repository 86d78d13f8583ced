#include "dedloc/p2p/gate.h"

#include <array>

#include "dedloc/base/check.h"
#include "dedloc/p2p/host.h"
#include "dedloc/p2p/protocols.h"
#include "dedloc/transport/upgrade.h"
#include "dedloc/wire/kad_messages.h"
#include "dedloc/wire/relay_messages.h"

namespace dedloc::p2p {

GatedHost& gate_of(Host& host) {
    auto* const gated = dynamic_cast<GatedHost*>(&host);
    DEDLOC_CHECK(gated != nullptr, "a host without a gate");
    return *gated;
}

std::span<const OpenProtocol> own_protocols() {
    static constexpr std::array protocols{
        OpenProtocol{wire::identify_protocol, "libp2p: addresses and protocols, before any hello"},
        OpenProtocol{wire::identify_push_protocol, "libp2p: the same, when they have changed"},
        OpenProtocol{ping_protocol, "libp2p: is the connection alive?"},
        OpenProtocol{wire::kad_protocol, "libp2p: addresses of peers that allow it"},
        OpenProtocol{transport::lane_protocol,
                     "another connection of a peer, which its own key opens"},
        OpenProtocol{wire::relay_hop_protocol, "newcomers reach members over it; it has limits"},
        OpenProtocol{wire::relay_stop_protocol, "a relay brings a connection, encrypted to us"},
        OpenProtocol{wire::hole_punch_protocol, "a direct connection beside a relayed one"},
        OpenProtocol{wire::autonat_protocol, "dials the asker's own public address, seldom"},
    };
    return protocols;
}

}  // namespace dedloc::p2p
