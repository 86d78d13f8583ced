// Turns a run file, and what the user grants, into options of rounds; and a backend's parts into
// the environment of them.
//
// Thread: any. Pure.

#pragma once
#include "dedloc/averaging/environment.h"
#include "dedloc/collab/lab.h"

namespace dedloc::collab {

struct BackendContext;

averaging::RoundOptions round_options(const CollaborationOptions& options, const Planted& planted);
// The environment keeps references to all of these.
averaging::RoundEnvironment round_environment(const BackendContext& context,
                                              consensus::Ledger& ledger,
                                              allreduce::PartStore& parts,
                                              const averaging::Roster& roster,
                                              averaging::RoundListener& listener,
                                              consensus::OrderJudge& judge);
// The most samples of one contribution.
std::uint64_t samples_max(const run::RunFile& run);
// Rules that make steps of a robust run safe, as its section says.
consensus::ProtectionRules protection_rules(const run::RunFile& run);
// Does a new key weigh nothing until its contributions were found right?
bool checks_newcomers(const run::RunFile& run);
// How much of averages is kept for those that slept.
std::size_t kept_bytes(const CollaborationOptions& options);

}  // namespace dedloc::collab
