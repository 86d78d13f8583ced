// UpdateGuard: how much one member of a run may move one expert. Whoever may call an expert back
// changes it for all, so each member's gradients are measured against what the members send:
//
//   norm    an update's gradient, of the parameters, is at most norm_factor times as long as is
//           usual: the lower median over members of what each sent lately, by the root of its rows;
//           longer ones are shortened.
//   share   while others train it, at most `share` of an expert's rows of the last seconds are one
//           member's; what is beyond is answered, and updates nothing.
//   who     `trains` says who takes part in the training at all; others' calls update nothing.
//
// A lone member is measured against itself, more loosely. Answers are always the true gradients of
// the inputs. Bounded: members_max members; the one that was silent longest is forgotten. Thread:
// the network thread. Pure but for the time, which is a parameter. Source: own.

#pragma once
#include <cstddef>
#include <functional>
#include <limits>
#include <map>

#include "dedloc/base/peer_id.h"
#include "dedloc/base/time.h"

namespace dedloc::experts {

struct UpdateLimits {
    double norm_factor = 3;
    double own_norm_factor = 10;  // where nobody else is known
    double share = 0.6;
    double rows_free = 64;  // beyond the share, so that equals do not wait for each other
    Duration lately = std::chrono::seconds(20);
    std::size_t members_max = 64;  // that are remembered, of one expert
    // 0: each call updates its expert at once. Else an update takes the gradients of so many
    // members at least, by a rule that a minority cannot bend (update_pool.h).
    std::size_t pooled_min = 0;
    // Null: everybody.
    std::function<bool(const PeerId& member)> trains{};
};

class UpdateGuard {
  public:
    struct Verdict {
        bool applies = true;
        double norm_max = std::numeric_limits<double>::infinity();
    };
    struct Applied {
        bool applied = false;
        double norm = 0;  // of the gradient, as it came
    };

    Verdict check(const UpdateLimits& limits,
                  const PeerId& member,
                  std::size_t rows,
                  TimePoint now) const;
    void note(const UpdateLimits& limits,
              const PeerId& member,
              std::size_t rows,
              TimePoint now,
              const Applied& update);
    // Members whose gradients came lately.
    std::size_t active(const UpdateLimits& limits, TimePoint now) const;

  private:
    struct Member {
        double usual_log = 0;  // of norm / sqrt(rows), smoothed
        bool measured = false;
        // Rows that were applied, in the half of `lately` that runs and the one before.
        TimePoint half_begun;
        double rows_now = 0;
        double rows_before = 0;
        TimePoint heard;
    };
    static double lately(const Member& member, Duration half, TimePoint now);
    double norm_max(const UpdateLimits& limits, const PeerId& of, double rows) const;

    std::map<PeerId, Member> members_;
};

}  // namespace dedloc::experts
