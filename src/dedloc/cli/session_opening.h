// Opens a Session with the exit codes that users were promised, and chooses the peer's folder.
//
// Errors: Failure with port, disk, identity_in_use or bad_input. Blocks for a few file operations.

#pragma once
#include <memory>
#include <string>
#include <vector>

#include "dedloc/base/time.h"
#include "dedloc/cli/commands.h"
#include "dedloc/cli/exit_codes.h"
#include "dedloc/collab/session.h"

namespace dedloc::cli {

constexpr Duration reach_patience = 30s;  // until the peers of a join string have answered
constexpr Duration goodbye_max = 2s;      // of one who has no part in the work

// What users write: multiaddrs, "HOST:PORT", "[IPv6]:PORT", "none". Nothing: any free port.
Result<std::vector<std::string>> listen_addresses(const std::vector<std::string>& given);
// What others are told to dial: multiaddrs, "HOST:PORT", "[IPv6]:PORT", HOST being a name, too.
Result<std::vector<std::string>> announced_addresses(const std::vector<std::string>& given);

struct OpenedSession {
    std::unique_ptr<collab::Session> session;
    std::string directory;  // absolute
};

struct OpeningOptions {
    std::string directory;  // the user's --dir; empty: the first free numbered folder of the run
    std::vector<std::string> listen;
    std::vector<std::string> announce;
    std::vector<std::string> relays{};  // multiaddrs with /p2p/<id> to stay connected to
    p2p::NatOptions nat{};
    std::string congestion_control{};
    CapOptions caps{};
    std::size_t workers_count = 0;  // collab::SessionOptions
};
// Of a command that has --dir, --listen, --announce, --relay, --no-port-mapping,
// --congestion-control, --max-up and --max-down. Cores that --threads leaves to others are left by
// what works beside the gradients as well.
template <typename Options>
OpeningOptions opening_options(const Options& given) {
    OpeningOptions opening{.directory = given.directory,
                           .listen = given.listen,
                           .announce = given.announce,
                           .relays = given.relays,
                           .congestion_control = given.congestion_control,
                           .caps = given.caps};
    opening.nat.map_ports = !given.no_port_mapping;
    if constexpr (requires { given.threads; })
        opening.workers_count = static_cast<std::size_t>(given.threads);
    return opening;
}

Outcome<OpenedSession> open_session(const Digest& run, const OpeningOptions& options);

}  // namespace dedloc::cli
