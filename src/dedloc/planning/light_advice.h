// Which way of averaging suits a group's lines (docs/few-bytes.md): a round after every batch, or
// local updates with a sparse codec, beside the rounds where the lines are very slow; and what
// share of the time machines then compute.
//
//   share = computing / (computing + round), and with averaging.delayed = min(1, computing / round)
//
// A round is the planner's, of everybody who computes, and messages beside the vector. Local steps
// are the fewest at which a round takes at most half the time of computing. Of a robust run only
// what it accepts is recommended: local steps with dense rounds, one after the other.
//
// Thread: any; pure. Errors: nothing, where the file has no batch or nobody has a speed.

#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "dedloc/planning/plan_file.h"

namespace dedloc::planning {

// `init --home` writes this without knowing any lines: SparseLoCo's number.
inline constexpr std::uint64_t usual_local_steps = 30;

struct LightAdvice {
    std::size_t trainers = 0;
    double batch = 0;               // samples of one inner step of all together
    double synchronous_share = 0;   // a round after each such batch, in the file's codec
    std::uint64_t local_steps = 0;  // 0: a round after each batch is the best
    std::string codec{};            // the file's, where rounds stay dense
    bool delayed = false;
    std::string refused{};     // what the run refuses and why, one sentence; empty: nothing
    double share = 0;          // of what is recommended
    double share_waiting = 0;  // of the same without `delayed`
    double round_s = 0;

    double batch_target() const { return batch * static_cast<double>(local_steps); }
};

std::optional<LightAdvice> advise_light(const PlanFile& file);

// "16 trainers: 30 local steps, sparse: 97 % of computing time; synchronous: 5 %. …"
std::string light_sentence(const LightAdvice& advice);

}  // namespace dedloc::planning
