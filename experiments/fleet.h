// `dedloc-lab fleet`: the paper's other half, what a fleet of preemptible machines costs. In
// virtual time, on the real engine, with a real model (Fashion-MNIST and the demo's small CNN):
//
//   large       one machine with 8 V100, on demand
//   on_demand   16 machines with a T4 each, 4 at 200 Mb/s, 8 at 100, 4 at 50
//   spot        the same, taken away and replaced as a trace says; the host stays, on demand
//   spot_light  the same as spot, with local steps and sparse rounds (docs/few-bytes.md)
//
// All train as many samples, or some more where a step has more. Lines and model stand for
// ALBERT-large, whose fp16 vector is 169 times as large: a step's computing takes 20 s of a T4.
//
// Errors: exit code 9 if spot costs more than 0.4 of on_demand, its loss is worse by more than 5 %,
// or two replicas differ; 5 without the data (Debian package dataset-fashion-mnist) or the files of
// trace and prices; 2 where those mean nothing.

#pragma once
#include <cstdint>
#include <string>

namespace dedloc::lab {

struct FleetCommand {
    std::string trace = "experiments/fleet/spot.csv";
    std::string prices = "experiments/fleet/prices.toml";
    std::uint64_t steps = 60;
    double rate = 0.003;        // AdamW's peak
    double light_rate = 0.008;  // and that between sparse rounds
    std::string only;           // the mode to run; empty: all
    std::string plot;           // an SVG file; empty: none
    std::string data_directory;
    std::uint64_t seed = 1;
    bool json = false;
};

int run_fleet(const FleetCommand& command);

}  // namespace dedloc::lab
