// TrainerWatch: how long an assistant goes on while no trainer is heard of. A router that restarts,
// or a night's outage, is no reason to leave for good: connections come back by themselves. When
// all trainers have said goodbye, the run has ended in order.
//
// Thread: the owner's. Times are steady seconds.

#pragma once
#include <set>
#include <vector>

#include "dedloc/membership/status.h"

namespace dedloc::cli {

// Then it is said. Who misses no trainer gives up: none was there so far, or all of them left.
inline constexpr double trainers_silent_s = 60;
inline constexpr double trainers_gone_s = 12 * 3600;  // then a run that was there is over

class TrainerWatch {
  public:
    enum class News { none, silent, back, gone };

    explicit TrainerWatch(double now) : heard_(now) {}

    // This one said goodbye; between two looks its status may come and go unseen.
    void left(const PeerId& peer) { missed_.erase(peer); }

    // `statuses`: of all who are connected. Each of `silent` and `back` is news once.
    News observe(double now, const std::vector<membership::Status>& statuses) {
        std::set<PeerId> staying;
        bool any_trainer = false;
        for (const membership::Status& status : statuses) {
            if (status.role != membership::Role::trainer) continue;
            any_trainer = true;
            if (status.phase != membership::Phase::leaving) staying.insert(status.peer);
        }
        if (any_trainer) {
            heard_ = now;
            missed_ = std::move(staying);
            if (!silent_) return News::none;
            silent_ = false;
            return News::back;
        }
        const double since = now - heard_;
        if (since > (missed_.empty() ? trainers_silent_s : trainers_gone_s)) return News::gone;
        if (silent_ || since <= trainers_silent_s) return News::none;
        silent_ = true;
        return News::silent;
    }
    double silent_for(double now) const { return now - heard_; }

  private:
    double heard_;
    std::set<PeerId> missed_;  // trainers that were there last, and have not said goodbye
    bool silent_ = false;
};

}  // namespace dedloc::cli
