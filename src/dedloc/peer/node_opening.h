// Opens a Node with the exit codes that users were promised, and chooses the peer's folder.
//
// Errors: Failure with port, disk, identity_in_use or bad_input. Blocks for a few file operations.

#pragma once
#include <memory>
#include <string>
#include <vector>

#include "dedloc/base/time.h"
#include "dedloc/collab/node.h"
#include "dedloc/peer/cap_setting.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/peer/peer_options.h"

namespace dedloc::peer {

constexpr Duration reach_timeout = 30s;  // until the peers of a join string have answered
constexpr Duration goodbye_max = 2s;     // of a peer that has no part in the work

// Says what is wrong with being announced there and listening here (both as multiaddrs): a
// port of the system's is another one at every start, so nothing can be passed on to it. Empty:
// nothing is.
std::string announced_in_vain(const std::vector<std::string>& announced,
                              const std::vector<std::string>& listen);

struct OpenedNode {
    std::unique_ptr<collab::Node> node;
    std::string directory;  // absolute
    // The node's caps, where they can be changed later; null: they stay as they are.
    std::shared_ptr<CapSetting> caps{};
};

struct OpeningOptions {
    std::string directory{};  // the user's --dir; empty: the first free numbered folder of the run
    std::vector<std::string> listen{};  // as written (wire/written_addresses.h); none: any port
    std::vector<std::string> announce{};
    std::vector<std::string> relays{};  // multiaddrs with /p2p/<id> to stay connected to
    p2p::NatOptions nat{};
    std::string congestion_control{};
    CapOptions caps{};
    std::size_t workers_count = 0;  // collab::NodeOptions
    bool caps_can_change = false;
};
// Opening options of a command that has --dir, --listen, --announce, --relay, --relay-for,
// --no-port-mapping, --congestion-control, --max-up and --max-down. Cores that --threads leaves to
// others are left by what works beside the gradients as well.
template <typename Options>
OpeningOptions opening_options(const Options& given) {
    OpeningOptions opening{.directory = given.directory,
                           .listen = given.listen,
                           .announce = given.announce,
                           .relays = given.relays,
                           .congestion_control = given.congestion_control,
                           .caps = given.caps};
    opening.nat.map_ports = !given.no_port_mapping;
    if (given.relay_for == "anyone") opening.nat.relay_for = p2p::RelayFor::anyone;
    if (given.relay_for == "nobody") opening.nat.relay = p2p::RelayServing::never;
    // Caps would take the place of what plans are told to count on.
    if constexpr (requires { given.web; })
        opening.caps_can_change = given.plan_up == 0 && given.plan_down == 0;
    if constexpr (requires { given.threads; })
        opening.workers_count = static_cast<std::size_t>(given.threads);
    return opening;
}

// Checks what open_node() would refuse of the options, its folder included, without opening
// anything: for commands with work before that which takes long.
std::optional<Failure> check_opening(const OpeningOptions& options);

Outcome<OpenedNode> open_node(const Digest& run, const OpeningOptions& options);

}  // namespace dedloc::peer
