// A child coroutine with its own cancellation, joined by who runs it: what deadlines and Children
// stand on; for the room's own files.
//
// Thread: the network thread. Cost: about 1 µs.

#pragma once
#include <asio/cancellation_signal.hpp>
#include <exception>
#include <memory>

#include "dedloc/runtime/task.h"

namespace dedloc::runtime::detail {

struct Child {
    asio::cancellation_signal signal;
    std::exception_ptr exception;
};

// Runs `body` to its end, whatever it ends with (then in child->exception). Cancelling the caller
// is passed on to the body; the wait itself goes on.
Task<void> run_child(Executor executor, std::shared_ptr<Child> child, Task<void> body);

}  // namespace dedloc::runtime::detail
