// Draws faults from a seed: kills with and without the disk, lost machines, crashes in
// the middle of a write, freezes, partitions, one-way blocks, loss, latency, clocks, full disks.
//
//   FaultOptions options;
//   FaultScript script = make_faults(seed, world.nodes_count(), options);
//   FaultHooks hooks{.teardown = …, .restarted = …};
//   auto played = play_faults(world, script, hooks);
//   world.run_for(options.quiet_after);      // from here on nothing is broken, everybody is up
//
// Swarm testing (Groce et al., ISSTA 2012): each seed switches some kinds off altogether, because
// a mixture of everything hides bugs that need much of one kind. The script is a list that can be
// printed and from which faults can be taken away (shrinking a failing seed).
//
// Thread: the world's.

#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "dedloc/sim/world.h"

namespace dedloc::sim {

enum class FaultKind : std::uint8_t {
    kill,          // the process; `amount` > 0: the disk is lost as well
    lose_machine,  // nobody is told
    crash_write,   // the process dies inside its next durable write
    freeze,
    partition,    // `groups`
    block,        // nothing from nodes[0] to nodes[1]
    loss,         // `amount`: of the messages from and to the node
    latency,      // `amount`: seconds more to and from the node
    clock_drift,  // `amount`: gained per second
    wall_step,    // `amount`: seconds, for good
    disk_full,
};
inline constexpr std::size_t fault_kinds_count = 11;
std::string_view to_string(FaultKind kind);

struct Fault {
    Duration at{0};      // after the start of the script
    Duration length{0};  // then it is over: restarted, thawed, healed
    FaultKind kind = FaultKind::kill;
    std::vector<std::size_t> nodes;     // whom it meets; of a partition: who is in the other group
    std::vector<std::size_t> group_of;  // partition: a group number for each node
    double amount = 0;

    std::string text() const;
};

struct FaultOptions {
    Duration begin{2'000'000'000};
    Duration quiet_after{60'000'000'000};  // all faults are over by then
    double faults_per_s = 0.5;             // intensity
    Duration length_min{200'000'000};
    Duration length_max{15'000'000'000};
    // Nodes that are dead at the same time; 0: fewer than half of all, but at least one.
    std::size_t dead_max = 0;
    double disk_loss_chance = 0.15;  // of a kill
    double kind_chance = 0.5;        // that a seed uses a kind
    std::vector<FaultKind> never;    // kinds that no seed may use
};

struct FaultScript {
    std::vector<Fault> faults;  // in order of time
    Duration quiet_after{0};

    std::string text() const;  // one line a fault
    FaultScript without(std::size_t index) const;
};

FaultScript make_faults(std::uint64_t seed, std::size_t nodes_count, const FaultOptions& options);

struct FaultHooks {
    // Stops and destroys what runs on a process that has died. Its host is stopped afterwards.
    std::function<Task<void>(SimNode&)> teardown;
    // The machine runs a new, empty process: start the protocols again.
    std::function<void(SimNode&, bool disk_lost)> restarted;
};

struct FaultsPlayed {
    std::vector<std::uint64_t> applied = std::vector<std::uint64_t>(fault_kinds_count);
    std::uint64_t restarts = 0;
    std::uint64_t total() const;
};

// Begins at the world's present; keeps itself alive.
std::shared_ptr<const FaultsPlayed> play_faults(World& world, FaultScript script, FaultHooks hooks);

}  // namespace dedloc::sim
