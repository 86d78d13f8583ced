// One whole collaboration in virtual time from a seed: peers join at different times, train, are
// killed, frozen, cut off, slowed and lied to by their clocks, and everything they certify is
// checked. Then the faults end, and within 30 virtual seconds there must be one branch and steps go
// on (docs/simulation.md).
//
// The same options give the same result, bit for bit, with every compiler.
// Thread: one a simulation; simulations share nothing. Cost: docs/simulation.md.

#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "dedloc/base/time.h"
#include "dedloc/codec/codec.h"
#include "dedloc/consensus/paxos.h"
#include "dedloc/events/events.h"
#include "dedloc/sim/faults.h"
#include "dedloc/sim/world.h"

#include "tests/sim/protocol_liars.h"

namespace dedloc::lab {

struct SimulationOptions {
    std::uint64_t seed = 1;
    std::size_t peers_min = 5;
    std::size_t peers_max = 20;
    consensus::PlantedBugs bugs;
    Duration faults_for{40'000'000'000};
    Duration liveness_within{30'000'000'000};
    // How many histories of the consensus alone belong to one seed.
    std::uint64_t tortures = 16;
    // Instead of the seed's own faults.
    std::optional<sim::FaultScript> script;
    // Machines of two kinds that cannot dial each other (IPv6 and IPv4, a VPN and the Internet);
    // the first, and every third, is in both networks.
    bool two_networks = false;
    bool steady = false;  // everybody joins at once, no assassins, nobody leaves
    // averaging.delayed: trainers compute while a step is made. Default: in a third of the seeds.
    std::optional<bool> delayed;
    // averaging.group_max: more peers than that average in a grid. Default: 2 to 4 in a quarter of
    // the seeds, else more than there are peers.
    std::optional<std::size_t> group_max;
    // averaging.gather_max. Default: 3 in half of the seeds with the codec sparse, else the usual.
    std::optional<std::uint64_t> gather_max;
    // [local], mostly delayed: pseudo-gradients of steps of each peer's own, in a sparse codec or
    // in so many fragments.
    bool light = false;
    std::uint64_t fragments = 1;
    bool leave_out_slow = true;                   // averaging.leave_out_slow
    codec::CodecId codec = codec::CodecId::fp32;  // averaging.codec
    // From so many machines on, two thirds of the seeds have one or two that only aggregate.
    std::size_t aggregators_from = 6;
    // Instead: the last so many machines only aggregate, of a steady collaboration, too.
    std::optional<std::size_t> aggregators;
    std::function<void(const std::string&)> trace;  // one line an event
    // Every message that arrives: when, from and to which machine (their numbers), which method.
    std::function<void(TimePoint, std::size_t, std::size_t, const std::string&)> messages;
    // Before the first peer starts: what is to happen in this world besides.
    std::function<void(sim::World&)> prepare;
    // Takes what a machine's peer writes into its event log.
    std::function<void(std::size_t, const events::Event&)> events;
    // [robust], and one machine that breaks a rule of its rounds (protocol_liars.h).
    bool robust = false;
    ProtocolLie lie = ProtocolLie::none;
    // Machines whose members break the rules: what they lose is not judged.
    std::set<std::size_t> bad;

    std::uint64_t elements() const;  // of the trained vector: a sparse codec needs more
};

struct SimulationResult {
    std::uint64_t seed = 0;
    std::size_t peers = 0;
    std::vector<std::string> violations;
    std::uint64_t commits = 0;
    std::uint64_t aborts = 0;
    std::uint64_t branches = 0;
    std::uint64_t faults = 0;
    std::uint64_t averages_checked = 0;
    std::size_t aggregators = 0;             // among the peers
    std::uint64_t parts_of_aggregators = 0;  // certified averages that they reduced
    std::uint64_t left_out = 0;              // contributions that certified plans did without
    bool delayed = false;
    std::uint64_t averages_of_grids = 0;  // certified, and checked
    std::uint64_t averages_of_sums = 0;   // of sparse contributions; likewise
    std::uint64_t liars_judged = 0;       // of robust runs: those that ended in the rules' order
    std::uint64_t honest_ordered = 0;     // who were banned, eliminated or put on probation
    std::uint64_t peer_steps = 0;         // contributions of honest peers in commits
    std::uint64_t checks = 0;             // of others' contributions, computed again
    std::uint64_t samples_ahead = 0;      // kept of those computed while a step was made
    double samples_committed = 0;
    double samples_judged = 0;  // handed in by undisturbed peers: all must be in
    double samples_lost = 0;
    double samples_expired = 0;
    double step_gap_max_s = 0;  // between commits of the winning chain
    double recovered_in_s = 0;  // from the end of the faults to one branch and progress
    bool extinct = false;       // nobody had a state any more: nothing can be promised
    std::uint64_t messages = 0;
    std::uint64_t trace = 0;
    std::vector<double> commit_times_s;  // of the winning chain
    std::vector<double> samples_of;      // in the winning chain, by machine

    bool failed() const { return !violations.empty(); }
};

SimulationResult simulate(const SimulationOptions& options);

// The options of a seed of `--light`.
void make_light(SimulationOptions& options);
// And of `--light --robust`: local updates that others can compute again.
void make_light_robust(SimulationOptions& options);

}  // namespace dedloc::lab
