// From a bare byte connection to an authenticated, encrypted one that will carry yamux:
// multistream-select → /tls/1.0.0 → muxer (by ALPN, or by multistream inside TLS).
//
// The dialler sends its proposal and the first TLS message together, so an upgrade takes two round
// trips. A listener answers "na" to everything but TLS 1.3.
//
// Source: libp2p specs/connections, specs/tls. Limits: upgrade_max, proposals_max (limits.h).
// Thread: the network thread. Errors: peer_gone, peer_broke_protocol, conflict (another peer than
// expected answered), timeout, unsupported (no common protocol).

#pragma once
#include <memory>
#include <optional>

#include "dedloc/base/peer_id.h"
#include "dedloc/runtime/clock.h"
#include "dedloc/runtime/network.h"
#include "dedloc/security/identity.h"
#include "dedloc/security/tls.h"

namespace dedloc::p2p {

struct SecureConnection {
    std::unique_ptr<runtime::Connection> raw;
    std::unique_ptr<security::TlsChannel> tls;
    PeerId remote;
    bool is_dialler = false;
};

// `expected` empty: whoever answers. On failure the connection is closed.
Task<Result<SecureConnection>> upgrade_dialled(std::unique_ptr<runtime::Connection> raw,
                                               std::shared_ptr<const security::TlsContext> context,
                                               PeerId expected,
                                               runtime::Clock& clock);
Task<Result<SecureConnection>> upgrade_accepted(std::unique_ptr<runtime::Connection> raw,
                                                std::shared_ptr<const security::TlsContext> context,
                                                runtime::Clock& clock);

}  // namespace dedloc::p2p
