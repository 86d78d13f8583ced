// with_deadline: a Task that is cancelled, and becomes a timeout error, when time is up.

#pragma once
#include <asio/experimental/awaitable_operators.hpp>

#include <string>
#include <utility>

#include "dedloc/base/result.h"
#include "dedloc/runtime/clock.h"

namespace dedloc::runtime {

// `what` names the wait in the error: "timeout: <what> took longer than its deadline".
// The inner task has ended (cancelled and unwound) when this returns.
template <typename T>
Task<Result<T>> with_deadline(Clock& clock,
                              TimePoint deadline,
                              std::string what,
                              Task<Result<T>> task) {
    using namespace asio::experimental::awaitable_operators;
    auto outcome = co_await (std::move(task) || clock.sleep_until(deadline));
    if (outcome.index() == 0) co_return std::get<0>(std::move(outcome));
    co_return make_error(ErrorKind::timeout, "{} took longer than its deadline", what);
}

}  // namespace dedloc::runtime
