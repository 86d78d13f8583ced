// A newcomer's attempt to get a state: until when it goes on, and what came of those it asked.

#pragma once
#include <algorithm>
#include <optional>
#include <utility>

#include "dedloc/base/result.h"
#include "dedloc/base/time.h"

namespace dedloc::replica {

inline constexpr Duration load_timeout = 10min;  // without any progress

class JoinAttempt {
  public:
    void begin(TimePoint deadline) { until_ = deadline; }
    // Something came: it goes on for load_timeout at least.
    void extend(TimePoint now) { until_ = std::max(until_, now + load_timeout); }
    void give_up(Error why) { given_up_ = std::move(why); }
    bool goes_on(TimePoint now) const { return now < until_ && !given_up_; }
    TimePoint until() const { return until_; }
    const std::optional<Error>& why_given_up() const { return given_up_; }

    void ask_next_peer() {
        unfit_.reset();
        reached_ = false;
    }
    // The peer that was asked last has a certificate for us.
    void peer_answers(TimePoint now) {
        if (!std::exchange(member_answered_, true)) extend(now);
        reached_ = true;
    }
    bool reached() const { return reached_; }
    // The state that was loaded last is none of this model.
    void state_is_unfit(Error why) { unfit_ = std::move(why); }
    std::optional<Error> take_unfit() { return std::exchange(unfit_, std::nullopt); }

  private:
    TimePoint until_{};
    bool member_answered_ = false;
    bool reached_ = false;
    std::optional<Error> given_up_;
    std::optional<Error> unfit_;
};

}  // namespace dedloc::replica
