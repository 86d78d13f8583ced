// The audit of a finished run from the certificates that its peers left on disk (lab/audit.h), as
// the demo needs it. Without the lab it is unsupported.

#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dedloc/base/peer_id.h"
#include "dedloc/base/result.h"

namespace dedloc::cli {

struct AuditNumbers {
    std::uint64_t certificates = 0;
    std::uint64_t commits = 0;
    std::uint64_t disagreements = 0;
    double samples_committed = 0;
    double samples_twice = 0;
    double samples_lost = 0;
    double samples_unfinished = 0;  // of the killed, and last contributions
    std::vector<std::string> problems;
};

// Folders of peers (certificates.log in each); `killed`: who was not given the time to hand in.
// Errors: bad_input, local_fault, unsupported (built without the lab).
Result<AuditNumbers> audit_run(const std::vector<std::string>& directories,
                               const std::vector<PeerId>& killed);

}  // namespace dedloc::cli
