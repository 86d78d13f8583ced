// TrainerWatch: how long an assistant goes on while no trainer is heard of. A router that restarts,
// or a night's outage, is no reason to leave for good: connections come back by themselves.
//
// Thread: the owner's. Times are steady seconds.

#pragma once

namespace dedloc::cli {

// Then it is said. Whoever has not heard of any trainer so far gives up: the run may be over.
inline constexpr double trainers_silent_s = 60;
inline constexpr double trainers_gone_s = 12 * 3600;  // then a run that was there is over

class TrainerWatch {
  public:
    enum class News { none, silent, back, gone };

    explicit TrainerWatch(double now) : heard_(now) {}

    // Each of `silent` and `back` is news once.
    News look(double now, bool any_trainer) {
        if (any_trainer) {
            heard_ = now;
            ever_ = true;
            if (!silent_) return News::none;
            silent_ = false;
            return News::back;
        }
        const double since = now - heard_;
        if (since > (ever_ ? trainers_gone_s : trainers_silent_s)) return News::gone;
        if (silent_ || since <= trainers_silent_s) return News::none;
        silent_ = true;
        return News::silent;
    }
    double silent_for(double now) const { return now - heard_; }

  private:
    double heard_;
    bool ever_ = false;
    bool silent_ = false;
};

}  // namespace dedloc::cli
