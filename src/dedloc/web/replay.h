// Replay: a finished run, or a copy of one that goes on, from the event log of a peer's folder, in
// the same page as a live one, at any speed.
//
//   DEDLOC_TRY(auto replay, Replay::open(folder, run, version));
//   Server::start(replay->store(), {{"replay", replay->action()}}, options)
//
// A log has no statuses: of peers it knows what events tell, and who computed how much from the
// certificates beside it.
//
// Errors of open: bad_input (no events there). Thread: any; it has one of its own. Cost: the events
// of both files of a log stay in memory.

#pragma once
#include <memory>
#include <string>

#include "dedloc/base/result.h"
#include "dedloc/web/run_store.h"
#include "dedloc/web/server.h"

namespace dedloc::web {

inline constexpr double replay_speed_min = 0.01;
inline constexpr double replay_speed_max = 1e6;
inline constexpr double replay_usual_s = 60;  // how long one takes where no speed is asked for

class Replay {
  public:
    // `speed`: 0: all of it in replay_usual_s, though never slower than it was.
    static Result<std::unique_ptr<Replay>> open(const std::string& folder,
                                                const run::RunFile& run,
                                                const std::string& version,
                                                double speed = 0);
    ~Replay();
    Replay(const Replay&) = delete;
    Replay& operator=(const Replay&) = delete;

    RunStore& store();
    // {"speed":8}, {"playing":false}, {"at":T}
    Action action();
    // All events at once, as after the last moment.
    void to_end();

    struct State;

  private:
    explicit Replay(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

}  // namespace dedloc::web
