// Scope: owns the tasks that run in the background of one object, and joins them.
//
//   Scope scope(executor);
//   scope.spawn("heartbeat", heartbeat());
//   ...
//   co_await scope.stop();      // cancels all, returns when the last has ended
//
// Nothing is spawned detached. A task that ends with an exception other than cancellation is our
// bug and stops the program. Destroying a Scope with running tasks is a failed check: stop it
// first, or let SimWorld / the host's own stop() do so.
//
// Thread: the executor's.

#pragma once
#include <functional>
#include <memory>
#include <string>

#include "dedloc/runtime/task.h"

namespace dedloc::runtime {

class Scope {
  public:
    explicit Scope(Executor executor);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

    // After stop() has begun, new tasks are refused quietly (they are destroyed unstarted).
    void spawn(std::string name, Task<void> task);

    void cancel();         // asks all to end; returns at once
    Task<void> stop();     // cancel, then wait until all have ended; may be called repeatedly
    bool stopping() const;
    std::size_t running() const;

    struct State;

  private:
    std::shared_ptr<State> state_;
};

}  // namespace dedloc::runtime
