// BackOff: when a trainer had better stop computing for a while, because plans leave its
// contributions out (planner/left_out.h), or none of them reaches the others in time: what is left
// out of two steps is lost.
//
// One leader's word is not enough, nor one round; several in a row are. After a back-off one more
// contribution shows whether anything has changed (it is taken on trust, if nobody could measure
// the link meanwhile, so that one proves nothing); each back-off in a row is twice as long as the
// one before.
//
// Thread: one; is_on() any.

#pragma once
#include <atomic>
#include <cstdint>
#include <optional>

#include "dedloc/base/peer_id.h"

namespace dedloc::collab {

class BackOff {
  public:
    // The fate of our contribution in a step that was committed.
    enum class Fate {
        taken,     // some of it is in
        left_out,  // the plan says that it does without
        late,      // the plan counts on it, and nothing of it reached others
        missing,   // the plan does not know of it, or there was none
    };

    // By a plan of `leader`. True: a back-off begins.
    bool step_made(Fate fate, const PeerId& leader);
    // Something has changed: our link is said to be faster, say.
    void end();

    // Why the last one began: nothing reached the others in time.
    bool was_late() const { return history_.late_in_a_row > 0; }
    bool is_on() const { return on_; }
    std::uint64_t steps_left() const { return history_.steps_left; }

    // How fast our link was as it began, and whether it is so much faster now that there is no
    // reason for it any more. Bytes per second.
    void set_link_at_begin(double bytes_per_s) { link_at_begin_ = bytes_per_s; }
    bool is_another_link(double bytes_per_s) const;

  private:
    struct History {
        std::uint64_t steps_left = 0;
        std::uint64_t length = 0;  // of the last one; 0: our contributions are taken
        std::uint64_t left_out_in_a_row = 0;
        std::uint64_t late_in_a_row = 0;
        std::uint64_t taken_in_a_row = 0;
        std::optional<PeerId> by;  // who left us out first, since one was taken
    };
    bool begins(Fate fate, const PeerId& leader);
    bool is_sure(Fate fate, const PeerId& leader);

    History history_;
    std::atomic<bool> on_{false};
    double link_at_begin_ = 0;
};

}  // namespace dedloc::collab
