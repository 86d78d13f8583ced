#include "dedloc/runtime/together.h"

#include <asio/experimental/awaitable_operators.hpp>
#include <asio/multiple_exceptions.hpp>
#include <exception>
#include <memory>
#include <utility>

namespace dedloc::runtime {

namespace {

Task<void> both(Task<void> a, Task<void> b) {
    using namespace asio::experimental::awaitable_operators;
    try {
        co_await (std::move(a) && std::move(b));
    } catch (const asio::multiple_exceptions& several) {
        // Both were cancelled; that is one cancellation to the outside.
        std::rethrow_exception(several.first_exception());
    }
}

Task<void> all_between(std::shared_ptr<std::vector<Task<void>>> tasks,
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

}  // namespace

Task<void> all_of(std::vector<Task<void>> tasks) {
    if (tasks.empty()) co_return;
    auto shared = std::make_shared<std::vector<Task<void>>>(std::move(tasks));
    const std::size_t count = shared->size();
    co_await all_between(std::move(shared), 0, count);
}

Task<void> first_of(Task<void> a, Task<void> b) {
    using namespace asio::experimental::awaitable_operators;
    try {
        co_await (std::move(a) || std::move(b));
    } catch (const asio::multiple_exceptions& several) {
        std::rethrow_exception(several.first_exception());
    }
}

}  // namespace dedloc::runtime
