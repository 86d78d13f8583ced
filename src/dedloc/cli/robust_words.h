// The words of `dedloc init --robust`, and of `dedloc check` about a robust run.
//
// Thread: any; pure.

#pragma once
#include <string>
#include <vector>

#include "dedloc/run/run_file.h"

namespace dedloc::cli {

// The section with its defaults, every key explained.
std::string robust_section();

struct RobustForecast {
    double checks_share = 0;     // gradients that are computed again, of all
    double inputs_bytes = 0;     // that an owner keeps until the commit
    double extra_bytes = 0;      // of a round, for commitments, draws and rows
    std::size_t liars_max = 0;   // of these peers, that rounds withstand
    std::size_t voters_max = 0;  // of these peers, that may lie when they vote
};
// The forecast for each of `peers` equal peers; `vector_bytes`: of one contribution as it is
// encoded.
RobustForecast forecast_robust(const run::RobustConfig& robust,
                               std::size_t peers,
                               double vector_bytes);
// Lines for people, without a line's end.
std::vector<std::string> robust_lines(const run::RunFile& run,
                                      std::size_t peers,
                                      double vector_bytes);
// Says what is wrong with a robust run of so many peers; empty: nothing.
std::string robust_problem(const run::RunFile& run, std::size_t peers);

}  // namespace dedloc::cli
