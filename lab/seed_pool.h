// Runs numbered simulations on all cores, each in a worker process, so that one that crashes or
// hangs is a failed one like any other, and no state is shared.
//
// Thread: the caller's, which waits. Results come in any order and are kept by number.

#pragma once
#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "lab/simulation.h"

namespace dedloc::lab {

// What a worker tells of one simulation.
struct SeedResult {
    std::vector<std::string> violations;
    std::uint64_t peers = 0, commits = 0, aborts = 0, branches = 0, faults = 0, averages = 0;
    std::uint64_t messages = 0, trace = 0, extinct = 0;
    std::uint64_t aggregators = 0, parts_of_aggregators = 0, delayed = 0, samples_ahead = 0;
    std::uint64_t averages_of_grids = 0;
    double judged = 0, gap = 0, recovered = 0;
};

std::string to_line(std::uint64_t number, const SimulationResult& result);  // JSON

// One simulation, with every event on standard output; whether it held.
bool simulate_traced(std::uint64_t number, SimulationOptions options);

struct SeedPoolOptions {
    std::uint64_t first = 1;
    std::uint64_t count = 100;
    int workers = 2;
    std::string resume_file;        // results so far, one JSON object a line; empty: none
    double seed_seconds_max = 300;  // of real time; then it counts as hanging
    bool stop_at_first_failure = false;
    std::string what = "seed";                        // that is numbered
    std::function<std::string(std::uint64_t)> again;  // the command that repeats one
};

using SeedJob = std::function<SimulationResult(std::uint64_t number)>;

class SeedPool {
  public:
    SeedPool(SeedPoolOptions options, SeedJob job);
    ~SeedPool();

    // False: the file of results cannot be written.
    bool load_resumed();
    // Progress and failures go to standard error.
    void run();
    const std::map<std::uint64_t, SeedResult>& results() const { return results_; }

  private:
    using RealTime = std::chrono::steady_clock;
    struct Worker;

    bool start(Worker& worker);
    void stop(Worker& worker);
    void feed(Worker& worker);
    void read_from(Worker& worker);
    void failed(Worker& worker, const std::string& why);
    void take(const std::string& line);
    void progress(bool last);

    SeedPoolOptions options_;
    SeedJob job_;
    std::map<std::uint64_t, SeedResult> results_;
    std::vector<Worker> workers_;
    std::uint64_t next_ = 0;
    std::ofstream resume_;
    std::uint64_t failures_ = 0;
    RealTime::time_point begun_ = RealTime::now();
    RealTime::time_point shown_ = begun_;
};

}  // namespace dedloc::lab
