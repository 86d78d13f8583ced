// park: suspends the awaiting coroutine until somebody resumes it. The one place where waiting is
// built; Event, clocks and virtual networks stand on it.
//
//   auto start = [&](std::shared_ptr<Parked> parked) { waiters.push_back(std::move(parked)); };
//   co_await park(start);              // elsewhere: waiter->resume();
//
// Resuming goes through post, so whoever resumes is never re-entered. Cancelling the awaiting Task
// throws out of co_await at once and leaves a done() Parked behind, whose resume() does nothing.
//
// Thread: the executor's, all of it. Cost: one allocation and one post a wait.

#pragma once
#include <functional>
#include <memory>

#include "dedloc/runtime/task.h"

namespace dedloc::runtime {

class Parked {
  public:
    Parked() = default;
    virtual ~Parked() = default;
    Parked(const Parked&) = delete;
    Parked& operator=(const Parked&) = delete;

    virtual void resume() = 0;  // only the first call counts
    virtual bool done() const = 0;
};

// `start` is called once, when the coroutine has been suspended.
Task<void> park(std::function<void(std::shared_ptr<Parked>)> start);

// Goes on when everything has run that was posted (spawned, resumed) before.
Task<void> next_turn();

}  // namespace dedloc::runtime
