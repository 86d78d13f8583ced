// Timeouts: how long the answer of a live peer is waited for. Bulk data of a round may be before it
// on the link, more of it in a long round.
//
// Thread: the network thread.

#pragma once
#include <algorithm>
#include <cstdint>

#include "dedloc/base/time.h"

namespace dedloc::links {

// For the answer of a peer whose link is full: its queue is before the answer, both ways, and what
// is lost in it is sent again.
inline constexpr Duration answer_timeout_max = 30s;

class Timeouts {
  public:
    // `call_timeout`: of small messages between live peers, at least; `round_max`: of any round.
    Timeouts(Duration call_timeout, Duration round_max)
        : call_timeout_(call_timeout), round_max_(round_max) {}

    // With a live peer that was asked something small.
    Duration answer() const {
        return std::clamp<Duration>(
            newest_round_ / 5, call_timeout_, std::max(call_timeout_, answer_timeout_max));
    }
    // Inside a handler, or of one question among several: the asker's own call still ends in time.
    Duration within_answer() const { return answer() / 2; }
    // For a question that is answered after another one, or asked again once.
    Duration two_answers() const { return answer() * 2; }
    // Where the asked peer first computes a state, checks rows, or fetches what it lacks.
    Duration answer_after_work() const { return answer() * 4; }
    // A long round may keep peers silent for as long as it takes.
    Duration at_least(Duration usual) const { return std::max(usual, newest_round_); }

    // The deadline of the newest plan; zero before the first.
    Duration newest_round() const { return newest_round_; }
    void round_begins(Duration deadline) { newest_round_ = deadline; }
    // A deadline that somebody tells, within the run's bounds.
    void is_told_of_round(std::uint32_t milliseconds) {
        newest_round_ = std::min<Duration>(std::chrono::milliseconds(milliseconds), round_max_);
    }
    void is_told_of_longer_round(std::uint32_t milliseconds) {
        const Duration before = newest_round_;
        is_told_of_round(milliseconds);
        newest_round_ = std::max(before, newest_round_);
    }

  private:
    Duration call_timeout_;
    Duration round_max_;
    Duration newest_round_{0};
};

}  // namespace dedloc::links
