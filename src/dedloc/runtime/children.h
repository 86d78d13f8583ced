// Children: tasks that callers wait for, and that end when their parent goes.
//
//   Task<bool> done = children.run(std::move(work));   // the caller waits, as with co_await
//   ...
//   co_await children.stop();                          // cancels and joins what runs
//
// A Scope owns tasks that nobody waits for; here each has its caller, who may be cancelled too.
// Thread: the executor's. Cost: about 1 µs a task.

#pragma once
#include <cstdint>
#include <map>
#include <memory>

#include "dedloc/runtime/event.h"
#include "dedloc/runtime/task.h"

namespace dedloc::runtime {

namespace detail {
struct Child;
}

class Children : public std::enable_shared_from_this<Children> {
  public:
    explicit Children(Executor executor);
    Children(const Children&) = delete;
    Children& operator=(const Children&) = delete;

    // True: the task ended by itself. False: stop() was faster, and it has unwound or never began.
    // An exception of the task is thrown on here. Keeps the object alive.
    Task<bool> run(Task<void> task);
    // Cancels in the order in which they began: a run in the simulator must not depend on where
    // the allocator put them. May be called repeatedly. Not from a child: it would wait for itself.
    Task<void> stop();
    bool stopping() const { return stopping_; }
    std::size_t running() const { return running_.size(); }

  private:
    Executor executor_;
    Event ended_;
    std::map<std::uint64_t, std::shared_ptr<detail::Child>> running_;  // by when they began
    std::uint64_t begun_ = 0;
    bool stopping_ = false;
};

}  // namespace dedloc::runtime
