// with_deadline: a Task that is cancelled, and becomes a timeout error, when time is up.
//
// Thread: the network thread. Cost: about 1 µs. Cancel: cancels the inner task and waits until it
// has unwound.

#pragma once
#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "dedloc/base/result.h"
#include "dedloc/runtime/clock.h"
#include "dedloc/runtime/scope.h"
#include "dedloc/runtime/task.h"

namespace dedloc::runtime {

namespace detail {

// A child coroutine with its own cancellation, joined by run_child.
struct Child {
    asio::cancellation_signal signal;
    std::exception_ptr exception;
};

// Runs `body` to its end, whatever it ends with (then in child->exception). Cancelling the caller
// is passed on to the body; the wait itself goes on.
Task<void> run_child(Executor executor, std::shared_ptr<Child> child, Task<void> body);

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
    auto child = std::make_shared<detail::Child>();
    auto slot = std::make_shared<std::optional<Result<T>>>();
    bool expired = false;
    auto expire = [&expired, child] {
        expired = true;
        child->signal.emit(asio::cancellation_type::terminal);
    };
    const TimerId timer = clock.call_at(deadline, expire);
    const TimerGuard guard(clock, timer);
    Executor executor = co_await asio::this_coro::executor;
    Task<void> body = detail::store_result<T>(slot, std::move(task));
    co_await detail::run_child(executor, child, std::move(body));
    const bool unwound = child->exception != nullptr && is_cancellation(child->exception);
    if (child->exception && !(expired && unwound)) std::rethrow_exception(child->exception);
    if (slot->has_value() &&
        !(expired && !**slot && (*slot)->error().kind() == ErrorKind::cancelled))
        co_return *std::move(*slot);
    co_return make_error(ErrorKind::timeout, "{} took longer than its deadline", what);
}

}  // namespace dedloc::runtime
