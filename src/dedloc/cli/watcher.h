// Watcher: an observer of a run on a thread of its own. It sees statuses and events, and gives
// nothing: it listens nowhere and holds no state. It has a fresh identity; where a run lets in by
// invitation, that of the peer that `join` would be with the same string, and its token.
//
// Errors of start: bad_input, unreachable, different_run. Thread: the owner's.

#pragma once
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "dedloc/collab/node.h"
#include "dedloc/events/events.h"
#include "dedloc/experts/grid_view.h"
#include "dedloc/membership/status.h"
#include "dedloc/peer/exit_codes.h"
#include "dedloc/run/run_file.h"

namespace dedloc::cli {

class Watcher {
  public:
    // Returns once a peer of the run has answered.
    // `directory`: of that peer; empty: the first free one of the run.
    static peer::Outcome<std::unique_ptr<Watcher>> start(const std::string& join_text,
                                                         const std::string& directory,
                                                         double seconds);
    ~Watcher();
    Watcher(const Watcher&) = delete;
    Watcher& operator=(const Watcher&) = delete;

    const run::RunFile& run() const;
    const collab::Node& node() const;  // that looks; with the run's table where it has experts
    std::vector<membership::Status> statuses() const;  // of the others
    std::vector<events::Event> take_events();
    // The grid of experts as it was some seconds ago; none: the run has no experts, or nothing was
    // heard yet.
    std::optional<experts::GridSeen> grid() const;
    double wall_now() const;  // seconds since 1970

    struct State;

  private:
    explicit Watcher(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

}  // namespace dedloc::cli
