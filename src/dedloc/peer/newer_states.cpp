#include "dedloc/peer/newer_states.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "dedloc/peer/peer_run.h"

namespace dedloc::peer {
namespace {

constexpr auto waiting_look_time = std::chrono::milliseconds(100);

}  // namespace

Outcome<Visited> NewerStates::visit(const Tell& tell) {
    const double begun = steady_seconds();
    auto seen = what_.join_string.empty()
                    ? visit_checkpoint(what_.checkpoint, task_)
                    : visit_run(what_.join_string, what_.directory, task_, tell, goes_on_);
    took_ = steady_seconds() - begun;
    return seen;
}

Outcome<Visited> NewerStates::first() {
    auto seen = visit(tell_);
    if (seen) step_ = seen->state->step();
    return seen;
}

std::optional<Visited> NewerStates::next() {
    while (waits(std::max(what_.refresh, visit_share * took_))) {
        auto seen = visit([](const std::string&) {});
        if (!goes_on_()) break;
        judge(seen);
        if (!seen || seen->state->step() == step_) continue;
        step_ = seen->state->step();
        return std::move(*seen);
    }
    return std::nullopt;
}

bool NewerStates::waits(double seconds) const {
    const double until = steady_seconds() + seconds;
    while (goes_on_() && steady_seconds() < until) std::this_thread::sleep_for(waiting_look_time);
    return goes_on_();
}

void NewerStates::judge(const Outcome<Visited>& seen) {
    const bool answers = static_cast<bool>(seen);
    if (answers == answers_) return;
    answers_ = answers;
    tell_(answers ? "a state can be had again"
                  : fmt::format("no newer state can be had, and that of step {} stays: {}",
                                step_,
                                seen.failure().message));
}

}  // namespace dedloc::peer
