// NewerStates: a model's states one after the other as it is trained, for commands that follow it:
// of a run that is under way by visits (visitor.h), of a folder as checkpoints appear there.
//
//   NewerStates states({.join_string = string}, task, goes_on, tell);
//   auto state = states.first();
//   while (auto newer = states.next()) …
//
// A visit fetches the whole state over others' lines, so visits take one part in visit_share of the
// time at most. Where a run does not answer, `tell` hears so once, and the run is asked again.
//
// Blocks. `goes_on` is asked several times a second. Errors: as visitor.h. Thread: one.

#pragma once
#include <functional>
#include <optional>
#include <string>

#include "dedloc/peer/visitor.h"

namespace dedloc::peer {

inline constexpr double visit_share = 20;

struct FollowedModel {
    std::string join_string{};  // or ...
    std::string directory{};    // of the peer that the string is for, in an invited run
    std::string checkpoint{};   // ... a folder, as find_checkpoint() takes it
    double refresh = 60;        // seconds between two visits
};

class NewerStates {
  public:
    using GoesOn = std::function<bool()>;
    using Tell = std::function<void(const std::string& line)>;
    NewerStates(FollowedModel what, tasks::TaskOptions task, GoesOn goes_on, Tell tell)
        : what_(std::move(what)),
          task_(std::move(task)),
          goes_on_(std::move(goes_on)),
          tell_(std::move(tell)) {}

    Outcome<Visited> first();
    // Waits for a state of another step than the last one. Nothing: `goes_on` says no.
    std::optional<Visited> next();

  private:
    Outcome<Visited> visit(const Tell& tell);
    bool waits(double seconds) const;
    void judge(const Outcome<Visited>& seen);

    const FollowedModel what_;
    const tasks::TaskOptions task_;
    const GoesOn goes_on_;
    const Tell tell_;
    std::uint64_t step_ = 0;
    double took_ = 0;  // seconds, the last visit
    bool answers_ = true;
};

}  // namespace dedloc::peer
