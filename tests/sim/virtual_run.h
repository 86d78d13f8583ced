// VirtualRun: a collaboration of the real engine in virtual time, whose trainers compute real
// gradients (of whatever Learner they are given) that take as long as they are told, over lines
// with the rates they are told: an experiment with machines and networks that nobody has.
//
// Every trainer has the same data order as a real peer would (its PeerId decides). Deterministic
// from the seed, as far as the learner is.
//
// Thread: one. Cost: the learner's own time, and some milliseconds a peer, step and million
// parameters. Errors: bad_input (nobody trains), local_fault (a peer failed), timeout (the steps
// were not made in the virtual time).

#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "dedloc/allreduce/reducer.h"
#include "dedloc/base/result.h"
#include "dedloc/events/events.h"
#include "dedloc/run/run_file.h"
#include "dedloc/sim/world.h"
#include "dedloc/state/snapshot.h"
#include "dedloc/train/model.h"

#include "tests/common/step_book.h"
#include "tests/sim/image_task.h"

namespace dedloc::lab {

struct VirtualLine {
    double up_bytes_per_s = 12.5e6;
    double down_bytes_per_s = 12.5e6;

    static VirtualLine both_ways(double bytes_per_s) { return {bytes_per_s, bytes_per_s}; }
    VirtualLine times(double factor) const {
        return {up_bytes_per_s * factor, down_bytes_per_s * factor};
    }
};

// A link that grants the same as all others gets the same part as all others, if nothing slower
// is ever measured.
VirtualLine equal_grant(const std::vector<VirtualLine>& lines);

// A machine is taken away, and another one of the same identity comes. Times count from when all
// begin. Who has a notice leaves in order meanwhile, and is cut off when the time is over.
struct VirtualAbsence {
    Duration from{0};
    Duration notice{0};  // 0: it dies
    Duration until{0};
};

struct VirtualMachine {
    VirtualLine line;
    double samples_per_s = 16;
    bool aggregates = false;  // instead of training
    bool dialable = true;     // false: it must open every connection itself
    // Part-time: there for `stays`, away for `away`, and again; the first time from `joins_at`.
    // stays 0: for good.
    Duration joins_at{0};
    bool stubborn = false;  // goes on contributing although it is told that it errs
    Duration stays{0};
    Duration away{0};
    Duration first_stay{0};  // where the first time is another; 0: it is not
    // While it is away the machine sleeps: it hears nothing, and nobody is told.
    bool sleeps = false;
    // Instead of training it says that a micro-batch takes it so long, and hands nothing in.
    double claims_s = 0;
    // Once: from when this step is made until that one is. until_step 0: for good.
    std::uint64_t from_step = 0;
    std::uint64_t until_step = 0;
    std::vector<VirtualAbsence> absences{};  // in order, none within another
};

struct VirtualRunOptions {
    run::RunFile run = image_run();
    std::vector<VirtualMachine> machines;  // the first one hosts and is there from the start
    std::function<Result<std::unique_ptr<train::SampledModel>>(const PeerId&)> make_learner;
    // Everybody grants plans the same, so that all parts are equal; else as much as its line has.
    bool equal_parts = false;
    // For experiments with peers that err: changes what one hands in of a global step …
    std::function<void(
        const PeerId& self, std::uint64_t step, collab::CounterRange samples, std::span<float> sum)>
        falsify{};
    // … and what is found that another one had to hand in. Either may be empty.
    std::function<void(const PeerId& self,
                       const PeerId& author,
                       std::uint64_t step,
                       collab::CounterRange samples,
                       std::span<float> sum)>
        falsify_check{};
    std::uint64_t steps = 10;
    Duration latency{10'000'000};  // one way
    // Bytes that a stream may have under way: what is sent later waits behind it at a slow line.
    std::size_t stream_window_bytes = 4u << 20;
    Duration leave_grace_period{
        30'000'000'000};  // of who leaves, for a step that takes its samples
    // Lines, and the model, are so many times smaller than what they stand for (sim/world.h): only
    // what carries the vector counts as it is.
    double shrunk = 1;
    Duration time_max{3600'000'000'000};
    std::uint64_t seed = 1;
    std::function<void(sim::World&)> prepare;  // before the first machine is there; may be empty
    std::shared_ptr<const state::Snapshot> initial;      // empty: the learner's
    std::shared_ptr<const allreduce::Reducer> reducer;   // empty: the run's
    std::function<void(const events::Event&)> on_event;  // of all machines; may be empty
    // Gets each state of the first machine, and the bytes delivered to all until then; may be
    // empty.
    std::function<void(const std::shared_ptr<const state::Snapshot>&, double)> on_state;
};

struct VirtualResult {
    std::vector<BookedStep> steps;  // at_s: virtual; round_s: from hand-in to the new state
    // A share of the time between the first and the last step, over the trainers that stayed: spent
    // in gradients.
    double compute_share = 0;
    std::uint64_t samples_computed = 0;
    std::uint64_t samples_dropped = 0;
    double samples_expired = 0;
    std::uint64_t rounds_of_aggregators = 0;  // in which they reduced something, of all
    // Between the first step and the last: delivered to all, packet headers and all; and by what.
    double bytes = 0;
    double round_bytes_most = 0;  // of those, from one step to the next
    std::vector<sim::MethodTraffic> traffic;
    std::vector<double> sent;  // one a machine, over its line, since the first step
    double present_s = 0;      // of all trainers together, since the first step, until they leave
    bool identical = true;     // no two peers had different states at one step
    std::shared_ptr<const state::Snapshot> state;  // the last
};

Result<VirtualResult> run_virtually(const VirtualRunOptions& options);

}  // namespace dedloc::lab
