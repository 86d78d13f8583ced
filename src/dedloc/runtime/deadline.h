// with_deadline: a Task that is cancelled, and becomes a timeout error, when time is up.
//
// Thread: the network thread. Cost: about 1 µs. Cancel: cancels the inner task and waits until it
// has unwound.

#pragma once
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "dedloc/base/result.h"
#include "dedloc/runtime/clock.h"
#include "dedloc/runtime/task.h"

namespace dedloc::runtime {

namespace detail {

// Runs `body` to its end, or until the deadline cancels it; true: the deadline did.
Task<bool> run_until(Clock& clock, TimePoint deadline, Task<void> body);

template <typename T>
Task<void> store_result(std::shared_ptr<std::optional<Result<T>>> slot, Task<Result<T>> task) {
    Result<T> result = co_await std::move(task);
    slot->emplace(std::move(result));
}

}  // namespace detail

// `what` names the wait in the error: "timeout: <what> took longer than its deadline".
// The inner task has ended (cancelled and unwound) when this returns. A result that arrives at the
// last moment is returned, late or not.
template <typename T>
Task<Result<T>> with_deadline(Clock& clock,
                              TimePoint deadline,
                              std::string what,
                              Task<Result<T>> task) {
    if (deadline == TimePoint::never()) co_return co_await std::move(task);
    auto slot = std::make_shared<std::optional<Result<T>>>();
    Task<void> body = detail::store_result<T>(slot, std::move(task));
    const bool expired = co_await detail::run_until(clock, deadline, std::move(body));
    if (slot->has_value() &&
        !(expired && !**slot && (*slot)->error().kind() == ErrorKind::cancelled))
        co_return *std::move(*slot);
    co_return make_error(ErrorKind::timeout, "{} took longer than its deadline", what);
}

}  // namespace dedloc::runtime
