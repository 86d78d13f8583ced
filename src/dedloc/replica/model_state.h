// ModelState: a committed average turns one snapshot into the next. Pure and deterministic: every
// peer computes the same bits (promise 1).
//
// Sections of a snapshot: "parameters", one for each optimizer moment, "buffers". A moment of 8
// bits has three: "exp_avg" (what is not coded), "exp_avg.codes" (u8), "exp_avg.scales". Cost: one
// pass of the optimizer and a copy of the state. Thread: any (meant for workers).

#pragma once
#include <memory>
#include <span>
#include <vector>

#include "dedloc/allreduce/part_store.h"
#include "dedloc/consensus/messages.h"
#include "dedloc/run/layout.h"
#include "dedloc/run/run_file.h"
#include "dedloc/state/snapshot.h"

namespace dedloc::replica {

inline constexpr std::string_view parameters_section = "parameters";
inline constexpr std::string_view buffers_section = "buffers";

// The state of step 0: parameters and buffers as the learner made them, moments zero. `extra`: as
// SnapshotInfo has it. Cost: one hash of the state.
Result<std::shared_ptr<const state::Snapshot>> initial_state(const run::RunFile& run,
                                                             const run::Layout& layout,
                                                             std::vector<float> parameters,
                                                             std::vector<float> buffers,
                                                             Bytes extra = {});

// No state of this model is larger.
std::uint64_t state_bytes_most(const run::RunFile& run, const run::Layout& layout);

// Can the run's fragments be cut from this model? Errors: bad_input.
Ok check_fragments(const run::RunFile& run, const run::Layout& layout);

// Does a snapshot (downloaded, or from a checkpoint) fit this run and model? Errors: bad_input.
Ok check_state(const run::RunFile& run, const run::Layout& layout, const state::Snapshot& snapshot);

// The moments' sections of a state, by name and size, as vectors of zeros.
std::vector<state::Section> empty_moments(const optim::OptimizerConfig& optimizer,
                                          const run::Layout& layout);

std::span<const float> parameters_of(const state::Snapshot& snapshot);
std::span<const float> buffers_of(const state::Snapshot& snapshot);

struct AveragedVector {
    std::unique_ptr<float[]> values;  // not a std::vector: no pass of zeros before the numbers
    std::size_t count = 0;            // of the fragment that the step moves

    std::span<const float> view() const { return {values.get(), count}; }
};

// The averaged vector of a commit, or the fragment of it that the step moves: its parts decoded,
// side by side by `parallel_for`. `fragments`: the run's.
// Errors: not_found (bytes are missing), peer_broke_protocol (not finite, or not of this model's
// size, or another fragment).
Result<AveragedVector> averaged_vector(const run::Layout& layout,
                                       const consensus::RoundPlan& plan,
                                       const std::vector<SharedBytes>& encoded_parts,
                                       const optim::ParallelFor& parallel_for = optim::run_in_order,
                                       std::uint64_t fragments = 1);

// Multiplies its gradients, not the changes of buffers.
void shorten(AveragedVector& average, const run::Layout& layout, double scale);

// Facts of a step beside the state after it.
struct StepFacts {
    bool kept_back = false;  // it would have left the finite numbers: as before it, one step on
    optim::UpdateReport optimizer;
};

// Makes an optimizer step on `average`. In a run with fragments the average and the step are those
// of the decision's fragment: everything else, its moments too, keeps its bits, and the step's
// number, for bias corrections, counts the steps of one fragment. A step that would leave the
// finite numbers (a learning rate far too high) changes no parameter, moment or buffer, and only
// counts on: the same on all peers, as all compute the same. `facts` tells.
// Buffers move by the average of their changes: those of which no contribution is in it stay.
// `parallel_for` changes no bit.
Result<std::shared_ptr<const state::Snapshot>> next_state(
    const run::RunFile& run,
    const run::Layout& layout,
    const state::Snapshot& before,
    const consensus::Decision& decision,
    std::span<const float> average,
    StepFacts* facts = nullptr,
    const optim::ParallelFor& parallel_for = optim::run_in_order);

}  // namespace dedloc::replica
