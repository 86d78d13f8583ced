// dedloc fleet: scripts and manifests that start many peers (fleet/fleet_writer.h).
//
// Thread: the main thread.

#pragma once
#include <CLI/App.hpp>
#include <string>
#include <utility>
#include <vector>

#include "dedloc/cli/people_commands.h"

namespace dedloc::cli {

struct FleetOptions {
    std::string kind;  // slurm, kubernetes, ssh
    std::string what;  // a run file, or a join string as for join
    std::string file;  // of the fleet; empty: none
    std::string directory = "fleet";
    bool force = false;  // overwrite
    bool json = false;
    std::vector<std::pair<std::string, std::string>> fields{};  // given as options: they win
};
int run_fleet(const FleetOptions& options);

// `options` outlives the app.
void add_fleet_command(CLI::App& app, FleetOptions& options, const OnRun& on_run);

}  // namespace dedloc::cli
