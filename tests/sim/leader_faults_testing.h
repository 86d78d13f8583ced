// Tests of failing leaders share this: simulated collaborations in which nobody else fails, and the
// moment at which a leader sends its plan.

#pragma once
#include "dedloc/averaging/messages.h"

#include "tests/sim/simulation.h"

namespace dedloc::lab {

inline bool is_plan(const sim::World::Outgoing& sent) {
    return sent.method == averaging::plan_method && !sent.is_answer;
}

// Lost samples are judged elsewhere, so all peers count as disturbed.
inline SimulationOptions only_leaders_fail(std::uint64_t seed, std::size_t peers) {
    SimulationOptions options;
    options.seed = seed;
    options.peers_min = options.peers_max = peers;
    options.steady = true;
    options.tortures = 0;
    options.faults_for = std::chrono::seconds(40);
    options.script = sim::FaultScript{{}, options.faults_for};
    for (std::size_t i = 0; i < peers; ++i) options.bad.insert(i);
    return options;
}

}  // namespace dedloc::lab
