// When a volunteer's machine may train: within hours of the local day, and when nobody uses it.
//
//   hours   "22:00-07:00", several with commas between; empty: always
//   idle    nobody has typed at a terminal for so many minutes, and other programs took less than
//           busy_share_max of the processors meanwhile
//
// Thread: any; hours are pure, IdleWatch is one thread's. Errors: bad_input.

#pragma once
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "dedloc/base/result.h"
#include "dedloc/base/time.h"

namespace dedloc::peer {

inline constexpr double busy_share_max = 0.25;  // a video takes less; a build, or a game, more

class TrainingHours {
  public:
    static Result<TrainingHours> parse(const std::string& text);
    // Minutes since local midnight, [0, 1440).
    bool contain(int minute) const;

  private:
    std::vector<std::pair<int, int>> ranges_;  // begin, end; over midnight where end < begin
};

// A look at the machine tells this; seconds since the first look.
struct MachineUse {
    double processor_s = 0;      // that all programs took
    double own_processor_s = 0;  // of these, ours and what we started
    double terminal_idle_s = 0;  // since somebody typed
};

class IdleWatch {
  public:
    explicit IdleWatch(int processors) : processors_(processors) {}
    // To be told every few seconds.
    void observe(double now, const MachineUse& use);
    // For how long nobody has used the machine.
    double idle_seconds(double now) const;

  private:
    int processors_;
    double last_ = -1;
    MachineUse use_{};
    double busy_at_ = -1;  // when other programs were last at work
    double typed_at_ = -1;
};

// Looks at this machine; `child`: a process of ours, 0: none.
MachineUse machine_use(int child);

}  // namespace dedloc::peer
