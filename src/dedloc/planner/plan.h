// A whole plan for people and programs: a network with names in, who computes, who reduces how
// much, how long it takes, what else was possible, and sentences that say why.
//
// The averaging leader needs only split.h; this is the planner's full answer, for `dedloc plan`.
//
// Thread: any; pure.

#pragma once
#include <optional>
#include <string>
#include <vector>

#include "dedloc/planner/roles.h"
#include "dedloc/planner/split.h"

namespace dedloc::planner {

struct PlanPeer {
    std::string name{};
    PeerRates rates{};         // contributes: may compute
    double samples_per_s = 0;  // if there is a batch

    // Neither gives nor takes: it is there for the others.
    bool is_aggregator() const { return !rates.contributes && !rates.receives; }
};

struct LoadQuestion {
    std::vector<PlanPeer> peers{};
    std::vector<LinkLimit> links{};
    std::uint64_t elements_count = 0;
    double element_bytes = 2;
    std::uint64_t part_elements_min = 0;
    double batch_samples = 0;      // samples of a step; 0: whoever may compute does
    bool delayed = false;          // computing goes on while a step is averaged (averaging.delayed)
    bool delayed_refused = false;  // it never may (robust runs), and no sentence advises it
};

// The peer that a run with these lines does without (left_out.h; averaging.leave_out_slow), with
// the middle trainer's line for that of the leader, whoever leads.
struct LineLeftOut {
    std::vector<std::size_t> peers{};  // in the order of the question; never empty
    double step_seconds = 0;           // of the others
    double step_seconds_of_all = 0;    // with them
};

struct LoadPlan {
    std::vector<PeerRates> peers;  // contributes: computes
    Split split{};
    double seconds_equal = 0;   // every trainer that may own reduces an equal part
    double seconds_server = 0;  // the best single owner reduces everything
    bool has_aggregators = false;
    std::optional<double> seconds_without;   // the aggregators; nothing: impossible
    std::optional<ComputeChoice> computing;  // if there is a batch
    std::optional<LineLeftOut> left_out;     // if there is a batch, and somebody is
    AggregatorAdvice aggregator;             // one more
    std::vector<std::string> sentences;      // the first one says what the plan is
};

// Errors: as split_elements and choose_computing, with names instead of numbers.
Result<LoadPlan> make_plan(const LoadQuestion& question);

// "2.5 Gb/s", "200 Mb/s"
std::string rate_text(double bits_per_s);

}  // namespace dedloc::planner
