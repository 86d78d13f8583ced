// Replay: one process computes again what the certificates of a run say was computed, and makes
// every step of it: the same state after each, bit for bit, or the collaboration was not what it
// says.
//
// Every member's contribution is computed from the numbers of its samples in the plan (fresh ones
// at the state before the step, carried ones at the state before that), encoded as it travelled,
// reduced in the plan's order, and stepped upon.
//
// Needs a run whose gradients follow from (state, numbers); others are refused (replayable.h).
//
// Thread: one; members are computed side by side, a thread each. Cost: the gradients of all samples
// once more. Errors: bad_input (another run); not_found (a certificate is missing); the
// learners'.

#pragma once
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "dedloc/replica/model_state.h"
#include "dedloc/tasks/training_task.h"

namespace dedloc::lab {

struct Replayed {
    std::uint64_t steps = 0;
    std::uint64_t states_different = 0;  // steps after which the hash is another
    std::uint64_t parts_different = 0;   // averaged parts of another digest
    std::uint64_t members_least = 0;     // of a step
    std::uint64_t members_most = 0;
    double samples = 0;
};

struct ReplayInput {
    const tasks::TrainingTask& task;
    const run::RunFile& run;
    std::shared_ptr<const state::Snapshot> first;
    std::vector<Bytes> certificates;              // as a peer accepted them
    std::map<std::uint64_t, std::string> hashes;  // of states, by step, as the peers said them
    std::uint64_t steps = 0;                      // up to this one
    // Told of the state after each step.
    std::function<void(const state::Snapshot&)> on_step{};
};

Result<Replayed> replay(const ReplayInput& input);

}  // namespace dedloc::lab
