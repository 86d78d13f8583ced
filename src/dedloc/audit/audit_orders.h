// Orders that certificates give about peers, checked against the evidence that peers kept on disk
// (validation/evidence_log.h): a ban, an elimination or a probation without evidence, or with one
// that proves nothing, is a problem of the run.
//
// Thread: any. Cost: that of the evidence; a reduction that is proved wrong is made again.

#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "dedloc/audit/chain_book.h"
#include "dedloc/run/run_file.h"

namespace dedloc::audit {

struct KeptEvidence {
    std::map<Digest, Bytes> pieces;
    std::optional<run::RunFile> run;  // whose rules they follow
};

struct OrderReport {
    std::uint64_t orders = 0;  // bans, eliminations and probations
    std::uint64_t proved = 0;
    std::vector<std::string> words;     // what was ordered, for people
    std::vector<std::string> problems;  // sentences
};

// `evidence`: of all peers together.
OrderReport audit_orders(const ChainBook& book,
                         const KeptEvidence& evidence,
                         const security::Verifier& verifier);

// Adds what a peer's folder holds; nothing: it holds none. Files whose content is not what their
// names say are left out.
void add_evidence(const std::string& folder, KeptEvidence& evidence);

}  // namespace dedloc::audit
