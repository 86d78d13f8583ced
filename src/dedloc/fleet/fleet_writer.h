// Writes what people start a fleet with. Each kind is a function of the fleet alone, and has one
// line in the table of fleet_writer.cpp:
//
//   slurm        host.sbatch, peers.sbatch (an array), start.sh
//   kubernetes   host.yaml, peers.yaml, start.sh
//   ssh          machine.sh, fleet.sh start | stop | status
//
// A machine that is taken away sends SIGTERM, or says so where `preemption-notice` looks: the peer
// leaves in order. Its identity is on a disk that stays, so that it comes back as itself. The host
// stands where nothing is taken away; it keeps checkpoints, publishes them, and goes on from them.
//
// Errors: bad_input, for people. Thread: any; pure.

#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/result.h"
#include "dedloc/fleet/fleet.h"

namespace dedloc::fleet {

struct FleetText {
    std::string name;  // of the file
    std::string text;
    enum class Access { anybody, owner, runs } access = Access::anybody;
};

struct FleetKind {
    std::string_view name;
    std::string_view help;
    std::string_view start;  // the command that begins it, in the files' folder
    Result<std::vector<FleetText>> (*write)(const Fleet& fleet);
};
std::span<const FleetKind> fleet_kinds();

// Fills in what the run file or the join string says, and writes.
Result<std::vector<FleetText>> write_fleet(const FleetKind& kind, Fleet fleet);

// Words after `dedloc join STRING` and `dedloc host RUNFILE` that every kind has.
std::vector<std::string> peer_words(const Fleet& fleet);
// The options of a host on top.
std::vector<std::string> host_words(const Fleet& fleet, std::string_view published);

Result<std::vector<FleetText>> write_slurm(const Fleet& fleet);
Result<std::vector<FleetText>> write_kubernetes(const Fleet& fleet);
Result<std::vector<FleetText>> write_ssh(const Fleet& fleet);

}  // namespace dedloc::fleet
