// all_of: tasks that run at the same time and end together.
//
// Structured: when it returns or throws, every task has ended. Cancelling it cancels them all.
// Thread: the network thread (tasks interleave at their awaits). Cost: one allocation a task.

#pragma once
#include <asio/experimental/awaitable_operators.hpp>
#include <asio/multiple_exceptions.hpp>
#include <exception>
#include <memory>
#include <utility>
#include <vector>

#include "dedloc/runtime/task.h"

namespace dedloc::runtime {

namespace detail {

inline Task<void> both(Task<void> a, Task<void> b) {
    using namespace asio::experimental::awaitable_operators;
    try {
        co_await (std::move(a) && std::move(b));
    } catch (const asio::multiple_exceptions& several) {
        // Both were cancelled; that is one cancellation to the outside.
        std::rethrow_exception(several.first_exception());
    }
}

inline Task<void> all_between(std::shared_ptr<std::vector<Task<void>>> tasks,
                              std::size_t begin,
                              std::size_t end) {
    if (end - begin == 1) {
        co_await std::move((*tasks)[begin]);
        co_return;
    }
    const std::size_t middle = begin + (end - begin) / 2;
    Task<void> left = all_between(tasks, begin, middle);
    Task<void> right = all_between(tasks, middle, end);
    co_await both(std::move(left), std::move(right));
}

}  // namespace detail

inline Task<void> all_of(std::vector<Task<void>> tasks) {
    if (tasks.empty()) co_return;
    auto shared = std::make_shared<std::vector<Task<void>>>(std::move(tasks));
    const std::size_t count = shared->size();
    co_await detail::all_between(std::move(shared), 0, count);
}

// Ends when one of the two has ended; the other is cancelled and joined.
inline Task<void> first_of(Task<void> a, Task<void> b) {
    using namespace asio::experimental::awaitable_operators;
    try {
        co_await (std::move(a) || std::move(b));
    } catch (const asio::multiple_exceptions& several) {
        std::rethrow_exception(several.first_exception());
    }
}

}  // namespace dedloc::runtime
