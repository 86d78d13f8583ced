// OpenRound: what this peer wants of the open step, and how the time goes by in it: since when a
// round is wanted, what it brings, when the step opened and its round began, and how long rounds
// take.
//
// Thread: the network thread.

#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "dedloc/allreduce/contribution.h"
#include "dedloc/averaging/environment.h"
#include "dedloc/averaging/round_pace.h"
#include "dedloc/runtime/event.h"

namespace dedloc::averaging {

class OpenRound {
  public:
    using OnWanted = std::function<void(std::optional<TimePoint> since)>;

    OpenRound(const RoundEnvironment& environment, const links::Timeouts& timeouts)
        : environment_(environment), timeouts_(timeouts), changed_(environment.node.executor) {}
    // Is told since when a round is wanted, for branches.
    void on_wanted(OnWanted listener) { on_wanted_ = std::move(listener); }

    // Something that somebody waits for may have changed.
    runtime::Event& changed() { return changed_; }
    Task<void> pause(Duration duration);

    const std::shared_ptr<const allreduce::RoundInput>& input() const { return input_; }
    void hand_in(std::shared_ptr<const allreduce::RoundInput> input) {
        input_ = std::move(input);
        handed_in_at_ = environment_.now();
    }
    // Nothing: what was handed in is taken back, or brings nothing.
    std::optional<TimePoint> handed_in_at() const {
        if (!input_ || input_->input.is_empty()) return std::nullopt;
        return handed_in_at_;
    }
    void take_back() { input_.reset(); }
    bool leaving() const { return leaving_; }
    void set_leaving(bool leaving) { leaving_ = leaving; }

    bool wanted() const { return wanted_; }
    std::optional<TimePoint> wanted_since() const { return wanted_since_; }
    void set_wanted(bool wanted);
    // This machine slept, and has waited for nobody meanwhile.
    void wait_anew();

    // The ledger has moved to this instance.
    void ledger_moved(const consensus::Instance& open);
    void round_begins();
    bool in_round() const { return round_begun_.since_start.count() > 0; }
    TimePoint round_begun() const { return round_begun_; }
    // Called with each decision; `undisturbed`: RoundPace.
    void learn_pace(bool undisturbed);
    Duration usual_round() const { return pace_.usual(); }
    Duration usual_deadline() const;
    // How long the batch that is there was computed. With the delayed update most of it was
    // computed beside the round before; where nobody had to wait for the rest, it is only known
    // that computing took no longer.
    double computing_s() const;

  private:
    const RoundEnvironment& environment_;
    const links::Timeouts& timeouts_;
    OnWanted on_wanted_;
    std::shared_ptr<const allreduce::RoundInput> input_;
    TimePoint handed_in_at_;
    bool leaving_ = false;
    bool wanted_ = false;
    std::optional<TimePoint> wanted_since_;
    RoundPace pace_;
    TimePoint round_begun_;                                // by a plan of ours or another's
    std::pair<consensus::Instance, TimePoint> step_open_;  // which step, and since when
    std::optional<TimePoint> step_averaged_;  // since when; attempts that fail are no computing
    runtime::Event changed_;
};

}  // namespace dedloc::averaging
