#include "dedloc/audit/audit_command.h"

#include <cstdio>
#include <fmt/format.h>

#include "dedloc/audit/audit.h"

namespace dedloc::audit {
namespace {

AuditEnd refuse(const Error& error) {
    fmt::print(stderr, "dedloc: {}\n", error.message());
    return AuditEnd::bad_input;
}

}  // namespace

AuditEnd run_audit(const AuditCommand& command) {
    AuditOptions options;
    for (const std::string& text : command.killed) {
        const auto peer = PeerId::from_text(text);
        if (!peer) return refuse(peer.error());
        options.killed.insert(*peer);
    }
    const auto report = audit_folders(command.paths, options);
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
