// Runs numbered simulations on all cores, each in a worker process, so that one that crashes or
// hangs is a failed one like any other, and no state is shared. Workers die with their parent.
//
// Thread: the caller's, which waits. Results come in any order and are kept by number.
// Errors: bad_input for a file of other results; local_fault where workers cannot be started.

#pragma once
#include <chrono>
#include <cstdint>
#include <fstream>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "dedloc/base/result.h"

#include "tests/sim/simulation.h"

namespace dedloc::lab {

// A worker's answer for one number: one simulation, or several that belong together.
struct SeedResult {
    std::vector<std::string> violations;
    std::uint64_t peers = 0, commits = 0, aborts = 0, branches = 0, faults = 0, averages = 0;
    std::uint64_t messages = 0, trace = 0, extinct = 0;
    std::uint64_t aggregators = 0, parts_of_aggregators = 0, delayed = 0, samples_ahead = 0;
    std::uint64_t averages_of_grids = 0, averages_of_sums = 0, left_out = 0;
    std::uint64_t liars_judged = 0, honest_ordered = 0, peer_steps = 0, checks = 0;
    double judged = 0, gap = 0, recovered = 0;
    std::uint64_t histories = 1, too_slow = 0;     // `lab enumerate`: with those of second faults
    double gap_second = 0;                         // of those
    std::map<std::string, std::uint64_t> methods;  // of the messages at which they met
    bool crashed = false;                          // or hung: nothing is known of the promises
    bool failed() const { return !violations.empty(); }
    bool broke_a_promise() const { return failed() && !crashed; }
};

// The numbers that add up, by their names in a line and in a sum.
struct SeedCount {
    const char* name;
    const char* name_of_sum;
    std::uint64_t SeedResult::*count;
    bool in_older_files = true;
};
inline constexpr SeedCount seed_counts[] = {
    {"commits", "commits", &SeedResult::commits},
    {"aborts", "aborts", &SeedResult::aborts},
    {"branches", "branches", &SeedResult::branches},
    {"faults", "faults", &SeedResult::faults},
    {"averages", "averages_checked", &SeedResult::averages},
    {"averages_of_grids", "averages_of_grids", &SeedResult::averages_of_grids, false},
    {"averages_of_sums", "averages_of_sums", &SeedResult::averages_of_sums, false},
    {"aggregators", "aggregators", &SeedResult::aggregators, false},
    {"parts_of_aggregators", "parts_of_aggregators", &SeedResult::parts_of_aggregators, false},
    {"left_out", "left_out", &SeedResult::left_out, false},
    {"delayed", "delayed", &SeedResult::delayed, false},
    {"liars_judged", "liars_judged", &SeedResult::liars_judged, false},
    {"honest_ordered", "honest_ordered", &SeedResult::honest_ordered, false},
    {"peer_steps", "peer_steps", &SeedResult::peer_steps, false},
    {"checks", "checks", &SeedResult::checks, false},
    {"samples_ahead", "samples_ahead", &SeedResult::samples_ahead, false},
    {"messages", "messages", &SeedResult::messages},
    {"extinct", "extinct", &SeedResult::extinct},
};

SeedResult seed_result(const SimulationResult& result);
std::string to_line(std::uint64_t number, const SeedResult& result);  // JSON

// One simulation, with every event on standard output, and with `messages` every one that arrives.
SimulationResult simulate_traced(std::uint64_t number, SimulationOptions options, bool messages);

struct SeedPoolOptions {
    std::uint64_t first = 1;
    std::uint64_t count = 100;
    int workers = 2;
    std::string resume_file;        // results so far, one JSON object a line; empty: none
    double seed_seconds_max = 300;  // of real time; then it counts as hanging
    bool stop_when_found = false;   // a broken promise; a crash is none
    std::string what = "seed";      // that is numbered
    // Options that decide what a number's history is, by the option's name. A file of results
    // begins with it: results of other histories do not belong there. What a file does not tell (an
    // older program wrote it) is taken for granted, with a warning.
    std::vector<std::pair<std::string, std::string>> decides;
    std::function<std::string(std::uint64_t)> again;  // the command that repeats one
};

using SeedJob = std::function<SeedResult(std::uint64_t number)>;

class SeedPool {
  public:
    SeedPool(SeedPoolOptions options, SeedJob job);
    ~SeedPool();

    // Crashed ones are not results: they run again. An error: the file of results cannot be
    // written, or its results are of other options.
    Ok load_resumed();
    // Progress and failures go to standard error, and once that results cannot be kept. An error:
    // not all of them could be run.
    Ok run();
    const std::map<std::uint64_t, SeedResult>& results() const { return results_; }

  private:
    using RealTime = std::chrono::steady_clock;
    struct Worker;

    bool start(Worker& worker);
    bool open_pipes(int (&down)[2], int (&up)[2]);
    void stop(Worker& worker);
    void feed(Worker& worker);
    void read_from(Worker& worker);
    void failed(Worker& worker, const std::string& why);
    void take(const std::string& line);
    void keep(const std::string& line);
    void progress(bool last);
    Ok check_header(const std::string& line) const;
    std::string header() const;
    std::uint64_t results_wanted() const;

    SeedPoolOptions options_;
    SeedJob job_;
    std::map<std::uint64_t, SeedResult> results_;
    std::vector<Worker> workers_;
    std::uint64_t next_ = 0;
    std::ofstream resume_;
    bool resume_torn_ = false;  // it may end within a line
    bool lost_told_ = false;    // that results are not kept
    std::uint64_t failures_ = 0;
    bool found_ = false;
    std::string not_started_;  // why the last worker that could not be started was not
    RealTime::time_point begun_ = RealTime::now();
    RealTime::time_point shown_ = begun_;
};

}  // namespace dedloc::lab
