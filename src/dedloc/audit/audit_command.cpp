#include "dedloc/audit/audit_command.h"

#include <algorithm>
#include <cstdio>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <set>

#include "dedloc/audit/audit.h"
#include "dedloc/base/printable.h"

namespace dedloc::audit {
namespace {

AuditEnd refuse(const Error& error) {
    fmt::print(stderr, "dedloc: {}\n", error.message());
    return AuditEnd::bad_input;
}

constexpr std::size_t names_said_max = 10;

std::string names_there(const AuditReport& report) {
    std::set<std::string> names;
    for (const auto& [peer, name] : report.names) names.insert(base::printable(name));
    if (names.empty()) return "the logs there have no names, so an id is wanted";
    std::vector<std::string> said(names.begin(), names.end());
    const bool more = said.size() > names_said_max;
    said.resize(std::min(said.size(), names_said_max));
    return fmt::format("there are {}{}", fmt::join(said, ", "), more ? ", …" : "");
}

// An id, or the name that the logs of events have for it.
Result<std::set<PeerId>> peers_of(const std::string& text, const AuditReport& report) {
    std::set<PeerId> found;
    for (const auto& [peer, name] : report.names)
        if (name == text) found.insert(peer);
    if (!found.empty()) return found;
    const auto id = PeerId::from_text(text);
    if (!id)
        return make_error(ErrorKind::bad_input,
                          "--killed '{}': no peer there has that name, and it is no peer's id; {}",
                          base::printable(text),
                          names_there(report));
    if (!report.peers.contains(*id))
        fmt::print(stderr,
                   "dedloc: --killed {}: no certificate there speaks of that peer\n",
                   base::printable(text));
    return std::set<PeerId>{*id};
}

Result<AuditReport> audit_with_killed(const AuditCommand& command) {
    DEDLOC_TRY(AuditReport report, audit_folders(command.paths, {}));
    if (command.killed.empty()) return report;
    AuditOptions options;
    for (const std::string& text : command.killed) {
        DEDLOC_TRY(const std::set<PeerId> peers, peers_of(text, report));
        options.killed.insert(peers.begin(), peers.end());
    }
    return audit_folders(command.paths, options);
}

}  // namespace

AuditEnd run_audit(const AuditCommand& command) {
    const auto report = audit_with_killed(command);
    if (!report) return refuse(report.error());
    std::fputs(to_text(*report).c_str(), command.json ? stderr : stdout);
    if (command.json) std::printf("%s\n", to_json(*report).c_str());
    const bool lost = command.lost_max && report->loses_more_than(*command.lost_max);
    if (lost)
        fmt::print(stderr,
                   "dedloc: {:.2f} samples are lost, --lost-max allows {:.2f}\n",
                   report->samples_lost,
                   *command.lost_max);
    return report->clean() && !lost ? AuditEnd::sound : AuditEnd::check_failed;
}

}  // namespace dedloc::audit
