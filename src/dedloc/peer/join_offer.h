// Decides what a host shows of its join string: when, with which remark, and once more.
//
//   for (const std::string& line : offer.look(now, join_string, surroundings)) screen.say(line);
//
// A user that copies a string that was shown before the router or a relay answered passes on one
// that leads nobody in from outside. So it is held back until they have, for way_in_timeout_s at
// most; where nobody came to help, it is said what would; and when a later string leads in after
// all, it is shown again, once.
//
// Thread: any; pure.

#pragma once
#include <string>
#include <vector>

#include "dedloc/run/run_file.h"

namespace dedloc::peer {

inline constexpr double way_in_timeout_s = 5;

// The data of a run that everybody who trains needs in a folder of their own, for --data; empty:
// what the task needs comes in a package.
std::string own_data(const run::TaskConfig& task);

class JoinOffer {
  public:
    struct Surroundings {
        bool announced = false;     // the user said what others shall dial
        bool relays_given = false;  // and which relays to stay connected to
        bool is_asking = false;     // the router, or a relay, and has no answer yet
        std::string own_data{};     // of the run
        bool has_experts = false;   // that somebody has to serve
        std::string directory{};    // this peer's folder
    };
    // Lines to show now; mostly none. `now`: steady seconds.
    std::vector<std::string> observe(double now,
                                     const std::string& join_string,
                                     const Surroundings& around);
    bool is_held() const { return !is_shown_; }

  private:
    double began_ = -1;
    bool is_shown_ = false;
    bool leads_nowhere_ = false;  // which was said
};

}  // namespace dedloc::peer
