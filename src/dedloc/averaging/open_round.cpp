#include "dedloc/averaging/open_round.h"

#include <algorithm>

namespace dedloc::averaging {
namespace {

constexpr int usual_rounds_at_most = 3;  // a round that takes longer has failed
constexpr int unseen_share = 10;         // of a round: computing that ends so soon after it is none

}  // namespace

Task<void> OpenRound::pause(Duration duration) {
    const TimePoint until = environment_.now() + duration;
    (void)co_await changed_.wait_until(environment_.node.clock, until);
}

void OpenRound::set_wanted(bool wanted) {
    if (wanted && !wanted_since_) wait_anew();
    if (wanted == wanted_) return;
    wanted_ = wanted;
    changed_.pulse();
}

void OpenRound::wait_anew() {
    wanted_since_ = environment_.now();
    if (on_wanted_) on_wanted_(wanted_since_);
}

void OpenRound::ledger_moved(const consensus::Instance& open) {
    wanted_ = false;
    wanted_since_.reset();
    if (on_wanted_) on_wanted_(std::nullopt);
    round_begun_ = {};
    if (step_open_.first.step == open.step && step_open_.first.branch == open.branch) return;
    step_open_ = {open, environment_.now()};
    step_averaged_.reset();
}

void OpenRound::round_begins() {
    round_begun_ = environment_.now();
    if (!step_averaged_) step_averaged_ = round_begun_;
}

void OpenRound::learn_pace(bool undisturbed) {
    pace_.learn(in_round() ? environment_.now() - round_begun_ : Duration(0), undisturbed);
}

Duration OpenRound::usual_deadline() const {
    return std::clamp<Duration>(
        std::max(pace_.usual() * usual_rounds_at_most, timeouts_.newest_round()),
        environment_.options.deadline_min,
        environment_.options.deadline_max);
}

double OpenRound::computing_s() const {
    const Duration waited = step_averaged_.value_or(environment_.now()) - step_open_.second;
    if (!environment_.options.delayed) return to_seconds(waited);
    return waited > pace_.usual() / unseen_share ? to_seconds(waited + pace_.usual()) : 0;
}

}  // namespace dedloc::averaging
