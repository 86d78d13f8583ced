#include "dedloc/train/evaluation_turn.h"

#include <algorithm>

namespace dedloc::train {

namespace {

// In a row, until the next trainer makes them; so many more for each one after it.
constexpr std::uint64_t evaluations_missed = 2;

}  // namespace

bool is_our_turn(const collab::Collaboration& collaboration,
                 std::uint64_t step,
                 EvaluationTurn& turn) {
    const PeerId self = collaboration.status().peer;
    std::uint64_t newest = turn.since;
    std::uint64_t before_us = 0;
    std::uint64_t measured = 0;
    bool met_us = false;
    for (const membership::Status& peer : collaboration.peers()) {  // sorted
        if (peer.accuracy_step <= step) newest = std::max(newest, peer.accuracy_step);
        if (peer.role != membership::Role::trainer || peer.is_newcomer()) continue;
        if (peer.phase == membership::Phase::leaving) continue;
        met_us = met_us || peer.peer == self;
        if (met_us) continue;
        ++before_us;
        if (peer.accuracy_step <= step) measured = std::max(measured, peer.accuracy_step);
    }
    if (measured > std::max(turn.measured, turn.since)) {
        turn.measured = measured;
        turn.taken = step - measured;
    }
    const std::uint64_t grace_steps = evaluations_missed * (turn.every + turn.taken);
    return before_us == 0 || step > newest + (1 + before_us) * grace_steps;
}

}  // namespace dedloc::train
