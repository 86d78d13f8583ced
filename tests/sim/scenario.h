// Scenario: the part of a simulation that its seed decides before anything happens: the network,
// the machines, who comes and goes and when, whose lines are slow, which faults come, who lies.
//
// All of it is drawn in one fixed order, as every later draw of the seed depends on it. What was
// added later draws from randomness of its own, so that everything else of a seed stays as it was.
//
// Thread: the world's. Cost: next to nothing.

#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "dedloc/base/random.h"
#include "dedloc/base/time.h"
#include "dedloc/sim/faults.h"
#include "dedloc/sim/world.h"

#include "tests/sim/sim_peer.h"
#include "tests/sim/simulation.h"

namespace dedloc::lab {

inline constexpr Duration settled_after{8'000'000'000};  // a peer may be busy with a fault so long

struct Seat {  // a machine, its process, and what happened to it
    sim::SimNode* node = nullptr;
    std::unique_ptr<SimPeer> peer;
    double samples_per_s = 0;
    std::uint64_t micro_batch = 1;
    TimePoint join_at;
    TimePoint leave_at = TimePoint::never();
    bool aggregates = false;
    bool bad = false;       // it may break the rules: what it loses is not judged
    double upload_max = 0;  // that plans may count on, bytes per second; 0: what is measured
    double download_max = 0;
    bool was_slow = false;  // its line, from the start
    // From and to which step it brings nothing.
    std::vector<std::pair<std::uint64_t, std::uint64_t>> rests;
    bool joined = false;
    bool gone = false;  // left in order, for good
    std::size_t log_bytes_read = 0;
    std::vector<std::pair<TimePoint, TimePoint>> disturbed;

    bool undisturbed(TimePoint from, TimePoint to) const;
};

struct Scenario {
    std::vector<Seat> seats;  // by the number of their machine in the world
    sim::FaultScript script;
    // One peer at least keeps the state: no fault kills the first keeper before the middle, nor
    // the second after it.
    std::size_t keeper_first = 0;
    std::size_t keeper_second = 0;
    double assassin = 0;              // chance that an event kills who has it
    std::optional<std::size_t> liar;  // of a robust run: its seat
    std::optional<std::size_t> accomplice;
    std::optional<Random> lines;  // of seeds in which some lines are slow
    double fast_line = 0;         // bytes per second

    // Nullptr: nobody's.
    const Seat* find(const PeerId& peer) const;
    // Now and then somebody's line is mended: whose, if it is one's turn. Nullptr: nobody's.
    Seat* mend_a_line();
};

// The run file and what belongs to it. It draws from randomness of its own alone.
SimRun run_of(const SimulationOptions& options);
// The network draws first from the simulation's randomness …
sim::WorldOptions network_of(const SimulationOptions& options, Random& random);
// … and then the rest, once. The machines are added to the world.
Scenario make_scenario(const SimulationOptions& options, sim::World& world, Random& random);

}  // namespace dedloc::lab
