// The machines and lines of `dedloc-lab paper`, and what the planner says of them. Pure.

#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dedloc/run/run_file.h"

#include "tests/sim/virtual_run.h"

namespace dedloc::lab {

inline constexpr std::uint64_t albert_large_elements = 17'847'474;
// Peers that come and go stay so long: in seconds of the full experiment.
inline constexpr double part_time_stays_s = 300;
inline constexpr double part_time_away_s = 120;
inline constexpr double part_time_first_s = 10;  // then one every so many seconds

struct PaperSetup {
    std::string name;
    std::vector<VirtualLine> trainers;  // in full, as all lines here
    std::vector<VirtualLine> part_time{};
    std::vector<VirtualLine> aggregators{};
    bool equal_parts = false;
};

inline constexpr std::size_t paper_trainers = 16;

// `trainers`: a multiple of four; a quarter have the fastest and a quarter the slowest lines, and
// there are a quarter as many aggregators, half as many part-timers.
std::vector<PaperSetup> paper_setups(std::size_t trainers = paper_trainers);

// The planner's prediction of the exchange, with the parts it would make or equal ones;
// without those who come and go.
double exchange_s_predicted(const PaperSetup& setup,
                            std::uint64_t elements = albert_large_elements);

// The paper's batch for so many trainers. `lines_divisor`: lines are slower by this, and parts
// smaller; `time_divisor`: batches are smaller by this, so that a step takes less long.
run::RunFile paper_run(std::size_t trainers, std::uint64_t lines_divisor, double time_divisor);

// One setup's run, from the first step that counts.
struct PaperRun {
    std::vector<BookedStep> steps;  // at_s: since the first of them
    double compute_share = 0;       // of all time, in which trainers computed
    std::uint64_t rounds_of_aggregators = 0;
    bool identical = true;  // no two peers had different states at one step
};

}  // namespace dedloc::lab
