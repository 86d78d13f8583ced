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
    std::vector<std::string> killed;  // ids or names of peers that were killed
    std::optional<double> lost_max;   // samples that may be lost; none: any number
    bool json = false;                // one JSON object as the last line; text on standard error
};

// Numbers: the exit codes of both programs (docs/exit-codes.md).
enum class AuditEnd : int { sound = 0, bad_input = 2, check_failed = 9 };

AuditEnd run_audit(const AuditCommand& command);

}  // namespace dedloc::audit
