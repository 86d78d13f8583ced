// From a bare byte connection to an authenticated, encrypted one that will carry yamux:
// multistream-select → /tls/1.0.0 or /noise → muxer (agreed on in the handshake, or by multistream
// inside).
//
// A dialler may guess or ask. A guess sends the proposal of our first protocol and that protocol's
// first message together, which saves a round trip, but leaves no second choice to whoever does
// not speak it: the answer is `unsupported`, and a new connection must ask. A listener takes the
// first proposal that it speaks, and answers "na" to others.
//
// Source: libp2p specs/connections, specs/tls, specs/noise. Limits: upgrade_max, proposals_max
// (limits.h). Thread: the network thread. Errors: peer_gone, peer_broke_protocol, conflict (another
// peer than expected answered), timeout, unsupported (no common protocol).

#pragma once
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dedloc/base/peer_id.h"
#include "dedloc/runtime/clock.h"
#include "dedloc/runtime/network.h"
#include "dedloc/security/channel.h"
#include "dedloc/security/identity.h"
#include "dedloc/security/noise.h"
#include "dedloc/security/tls.h"

namespace dedloc::transport {

struct SecuritySettings {
    // Protocols that are offered and proposed, best first.
    std::vector<std::string> protocols = {std::string(security::tls_protocol),
                                          std::string(security::noise_protocol)};
    // Whether the handshake agrees on the muxer; else multistream inside does, as with old peers.
    bool early_muxer = true;
};

// All upgrades of a host share these: its certificate, its Noise key.
struct UpgradeContext {
    SecuritySettings settings = {};
    std::shared_ptr<const security::TlsContext> tls = {};
    std::shared_ptr<const security::NoiseContext> noise = {};

    // Errors: bad_input (a security protocol that is neither of the two, or none).
    static Result<std::shared_ptr<const UpgradeContext>> make(const security::Identity& identity,
                                                              SecuritySettings settings = {});
    bool speaks(std::string_view protocol) const;
};

// The first words on a lane say this: to which bundle it belongs (lane_bundle.h).
inline constexpr std::string_view lane_protocol = "/dedloc/lane/1";
struct LaneGreeting {
    std::array<std::uint8_t, 16> bundle{};
    std::uint8_t index = 0;
    std::uint8_t count = 0;  // of lanes in the bundle
    friend auto operator<=>(const LaneGreeting&, const LaneGreeting&) = default;
};

struct SecureConnection {
    std::unique_ptr<runtime::Connection> raw;
    std::unique_ptr<security::Channel> channel;
    PeerId remote;
    bool is_dialler = false;
    std::string security = {};  // "/tls/1.0.0", "/noise"
    // Accepted, and no connection of its own: `raw` is a lane, and nobody has shown who it is.
    std::optional<LaneGreeting> lane = {};
};

enum class Opening { guess, ask };

// `expected` empty: whoever answers. On failure the connection is closed.
Task<Result<SecureConnection>> upgrade_dialled(std::unique_ptr<runtime::Connection> raw,
                                               std::shared_ptr<const UpgradeContext> context,
                                               PeerId expected,
                                               runtime::Clock& clock,
                                               Opening opening = Opening::ask);
// One lane of a bundle, greeted and acknowledged.
Task<Result<std::unique_ptr<runtime::Connection>>> greet_lane(
    std::unique_ptr<runtime::Connection> raw, LaneGreeting greeting, runtime::Clock& clock);
Task<Result<SecureConnection>> upgrade_accepted(std::unique_ptr<runtime::Connection> raw,
                                                std::shared_ptr<const UpgradeContext> context,
                                                runtime::Clock& clock);

}  // namespace dedloc::transport
