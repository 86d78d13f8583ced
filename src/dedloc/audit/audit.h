// The audit of a run from the certificates that its peers left on disk: was a sample counted twice,
// was one lost, did two peers certify what excludes each other? Only signed bytes are believed.
//
// A `certificates.log` (and the files in which it goes on) has what one peer accepted since it
// joined, of long runs the newest gibibyte; together the logs of all peers have every chain. The
// winning chain is the one with the most committed samples.
//
// Errors: bad_input (a path without a log), local_fault. Thread: any; blocks for file reads.

#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "dedloc/audit/audit_orders.h"
#include "dedloc/audit/sample_accounts.h"
#include "dedloc/base/peer_id.h"
#include "dedloc/base/result.h"
#include "dedloc/security/signer.h"

namespace dedloc::audit {

struct PeerLog {
    std::string name;  // a path
    std::vector<Bytes> certificates;
    KeptEvidence evidence{};  // of the orders in them
};

struct AuditReport {
    std::uint64_t logs = 0;
    std::uint64_t certificates = 0;  // different decisions
    std::uint64_t commits = 0;       // on all branches
    std::uint64_t aborts = 0;
    std::uint64_t branches = 0;    // opened because a majority was lost
    std::uint64_t steps = 0;       // commits on the winning chain
    double samples_committed = 0;  // on the winning chain
    double samples_twice = 0;      // must be 0
    // Left out and never carried, or never handed in: by peers that slept, or were killed and are
    // not named as such.
    double samples_lost = 0;
    double samples_unfinished = 0;    // of last contributions, and of peers that were killed
    double samples_orphaned = 0;      // committed on branches that lost
    std::uint64_t disagreements = 0;  // must be 0
    std::uint64_t orders = 0;         // bans, eliminations, probations
    std::uint64_t orders_proved = 0;  // by evidence on disk
    std::vector<std::string> order_words;
    std::vector<std::string> problems;  // sentences; empty: nothing is wrong
    std::map<PeerId, PeerAccount> peers;
    std::map<PeerId, std::string> names;  // of those that an event log beside a log names

    // This must hold for every history of peers; samples may be lost with those that were killed.
    bool clean() const { return samples_twice == 0 && disagreements == 0 && problems.empty(); }
    bool loses_more_than(double samples) const { return samples_lost > samples; }
};

struct AuditOptions {
    // Peers that were killed: what they had computed and not handed in, and the counters that their
    // next process skipped, is unfinished work and not lost.
    std::set<PeerId> killed;
};

AuditReport audit_logs(const std::vector<PeerLog>& logs,
                       const security::Verifier& verifier,
                       const AuditOptions& options = {});

// Reads logs: each path is a certificates.log, a peer's folder, or a folder of peers' folders.
Result<std::vector<PeerLog>> read_logs(const std::vector<std::string>& paths);
// Both, with real signatures.
Result<AuditReport> audit_folders(const std::vector<std::string>& paths,
                                  const AuditOptions& options = {});

// At most so many peers are listed for people.
inline constexpr std::size_t audit_rows_max = 10;

std::string to_json(const AuditReport& report);
std::string to_text(const AuditReport& report);

}  // namespace dedloc::audit
