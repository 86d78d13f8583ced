// `dedloc-lab simulate`: many seeds on all cores (seed_pool.h).
//
// Errors: exit code 9 when a seed failed; 2 for wrong arguments, also a --resume file of other
// options or of another engine; 1 when worker processes could not be started, so that seeds were
// not run.

#pragma once
#include <cstdint>
#include <string>

#include "tests/sim/simulation.h"

namespace dedloc::lab {

// Exact, so that a fault of the sums shows by itself; histories of others are theirs alone.
inline constexpr const char* usual_codec = "fp32";

struct SimulateCommand {
    std::uint64_t first = 1;
    std::uint64_t seeds = 100;
    std::string peers = "5-20";
    bool two_networks = false;  // members that cannot dial each other (IPv6 and IPv4, a VPN)
    bool delayed = false;       // trainers compute while a step is made, in all seeds
    std::size_t group_max = 0;  // of all seeds; 0: as the seed has it
    std::string codec = usual_codec;
    bool light = false;   // [local], sparse, of low rank or in fragments, mostly delayed
    bool robust = false;  // [robust]; seed after seed another liar
    std::string lie;      // always this one
    std::string plant;    // name of a planted bug; then a broken promise is what is wanted
    int workers = 2;
    std::string resume_file;        // results so far, one JSON object a line, after the options
    double seed_seconds_max = 300;  // of real time; then it counts as hanging
    bool json = false;
    bool trace = false;     // print the events; one seed at a time
    bool messages = false;  // and every message that arrives
};

int run_simulate(const SimulateCommand& command, const std::string& program);

}  // namespace dedloc::lab
