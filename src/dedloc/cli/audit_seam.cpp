#include "dedloc/cli/audit_seam.h"

#if DEDLOC_WITH_LAB
#include "lab/audit.h"
#endif

namespace dedloc::cli {

#if DEDLOC_WITH_LAB

Result<AuditNumbers> audit_run(const std::vector<std::string>& directories,
                               const std::vector<PeerId>& killed) {
    const lab::AuditOptions options{.killed = {killed.begin(), killed.end()}};
    DEDLOC_TRY(lab::AuditReport report, lab::audit_folders(directories, options));
    return AuditNumbers{.certificates = report.certificates,
                        .commits = report.commits,
                        .disagreements = report.disagreements,
                        .samples_committed = report.samples_committed,
                        .samples_twice = report.samples_twice,
                        .samples_lost = report.samples_lost,
                        .samples_unfinished = report.samples_unfinished,
                        .problems = std::move(report.problems)};
}

#else

Result<AuditNumbers> audit_run(const std::vector<std::string>&, const std::vector<PeerId>&) {
    return make_error(ErrorKind::unsupported, "this dedloc was built without the lab");
}

#endif

}  // namespace dedloc::cli
