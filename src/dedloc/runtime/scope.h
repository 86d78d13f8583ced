// Scope: owns the tasks that run in the background of one object, and joins them.
//
//   Scope scope(executor);
//   scope.spawn("heartbeat", heartbeat());
//   ...
//   co_await scope.stop();      // cancels all, returns when the last has ended
//
// Nothing is spawned detached. A task that ends with an exception other than cancellation is our
// bug and stops the program. Destroying a Scope with running tasks is a failed check: stop it
// first, or let the host's own stop() do so.
//
// Thread: the executor's. Cost: about 1 µs to start and end a task.

#pragma once
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <string>

#include "dedloc/runtime/task.h"

namespace dedloc::runtime {

// Names one spawned task; never reused within its Scope, 0 is nobody.
using TaskId = std::uint64_t;

class Scope {
  public:
    explicit Scope(Executor executor);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

    // The task starts at the next turn of the loop, never inside spawn(). After stop() or cancel()
    // has begun, new tasks are refused quietly (they are destroyed unstarted; the id is 0).
    TaskId spawn(std::string name, Task<void> task);

    void cancel_task(TaskId task);  // asks one to end; harmless if it has ended
    void cancel();                  // asks all to end; returns at once; nothing starts any more
    // cancel(), then wait until all have ended; may be called repeatedly. Not from a task of this
    // same Scope: it would wait for itself.
    Task<void> stop();
    bool stopping() const;
    std::size_t running() const;
    std::string names() const;  // of running tasks, for error messages: "heartbeat, round"

    struct State;

  private:
    std::shared_ptr<State> state_;
};

// True for the exception by which a cancelled Task unwinds.
bool is_cancellation(const std::exception_ptr& exception);

}  // namespace dedloc::runtime
