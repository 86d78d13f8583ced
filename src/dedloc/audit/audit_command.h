// The command `audit`, of `dedloc` and of `dedloc-lab`: reads peers' logs, prints what it found.
//
// Thread: one; blocks for file reads. Errors go to standard error, one sentence each.

#pragma once
#include <optional>
#include <string>
#include <vector>

namespace dedloc::audit {

struct AuditCommand {
    std::vector<std::string> paths;   // peers' folders, or folders of them
    std::vector<std::string> killed;  // ids of peers that were killed
    std::optional<double> lost_max;   // samples that may be lost; none: any number
    bool json = false;                // one JSON object as the last line; text on standard error
};

enum class AuditEnd { sound, bad_input, check_failed };

AuditEnd run_audit(const AuditCommand& command);

}  // namespace dedloc::audit
