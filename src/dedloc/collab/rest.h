// Rest: when a trainer had better stop computing for a while, because plans leave its contributions
// out (planner/left_out.h), or none of them reaches the others in time: what is left out of two
// steps is lost.
//
// One leader's word is not enough, nor one round; several in a row are. After a rest one more
// contribution shows whether anything has changed (it is taken on trust, if nobody could measure
// the line meanwhile, so that one proves nothing); each rest in a row is twice as long as the one
// before.
//
// Thread: one. Pure.

#pragma once
#include <cstdint>
#include <optional>

#include "dedloc/base/peer_id.h"

namespace dedloc::collab {

class Rest {
  public:
    // What became of our contribution in a step that was committed.
    enum class Fate {
        taken,     // some of it is in
        left_out,  // the plan says that it does without
        late,      // the plan counts on it, and nothing of it reached others
        missing,   // the plan does not know of it, or there was none
    };

    // By a plan of `leader`. True: a rest begins.
    bool step_made(Fate fate, const PeerId& leader);
    // Something has changed: our line is said to be faster, say.
    void end();

    // Why the last one began: nothing reached the others in time.
    bool was_late() const { return late_in_a_row_ > 0; }
    bool resting() const { return steps_left_ > 0; }
    std::uint64_t steps_left() const { return steps_left_; }

  private:
    bool is_sure(Fate fate, const PeerId& leader);

    std::uint64_t steps_left_ = 0;
    std::uint64_t length_ = 0;  // of the last rest; 0: our contributions are taken
    std::uint64_t left_out_in_a_row_ = 0;
    std::uint64_t late_in_a_row_ = 0;
    std::uint64_t taken_in_a_row_ = 0;
    std::optional<PeerId> by_;  // who left us out first, since one was taken
};

}  // namespace dedloc::collab
