// Whether a peer needs a state from others: its own does not lead to the next one. And for how long
// nobody has been there who could give one.

#pragma once
#include <algorithm>
#include <utility>

#include "dedloc/base/time.h"

namespace dedloc::replica {

class StateNeed {
  public:
    // Replay failed: only a download helps. `differs`: our state is another than the group's.
    void arise(bool differs) {
        needed_ = true;
        differs_ = differs;
        stuck_ = true;
    }
    // A step was applied, or another state loaded.
    void advanced() { stuck_ = false; }
    void state_was_loaded() { needed_ = differs_ = false; }
    // Nothing has to be waited for any more: what is here goes on.
    void end() { needed_ = stuck_ = false; }

    bool is_needed() const { return needed_; }
    bool differs() const { return differs_; }
    // The state has not advanced since.
    bool is_stuck() const { return stuck_; }

    // To be asked now and then; `helped`: somebody could give a state.
    void wait_for_help(TimePoint now, bool helped) {
        const Duration since = now - std::exchange(polled_at_, now);
        no_help_for_ = helped ? Duration(0) : no_help_for_ + std::min(since, look_max);
    }
    bool is_lost(Duration timeout) const { return stuck_ && no_help_for_ > timeout; }

  private:
    // Between two looks for help. A machine that slept has waited for nobody meanwhile.
    static constexpr Duration look_max = 500ms;

    bool needed_ = false;
    bool differs_ = false;
    bool stuck_ = false;
    Duration no_help_for_{0};  // while stuck
    TimePoint polled_at_;
};

}  // namespace dedloc::replica
