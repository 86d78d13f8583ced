#include "dedloc/runtime/deadline.h"

#include <asio/this_coro.hpp>

#include "dedloc/runtime/child.h"
#include "dedloc/runtime/scope.h"

namespace dedloc::runtime::detail {

Task<bool> run_until(Clock& clock, TimePoint deadline, Task<void> body) {
    auto child = std::make_shared<Child>();
    bool expired = false;
    auto expire = [&expired, child] {
        expired = true;
        child->signal.emit(asio::cancellation_type::terminal);
    };
    const TimerId timer = clock.call_at(deadline, expire);
    const TimerGuard guard(clock, timer);
    Executor executor = co_await asio::this_coro::executor;
    co_await run_child(executor, child, std::move(body));
    const bool unwound = child->exception != nullptr && is_cancellation(child->exception);
    if (child->exception && !(expired && unwound)) std::rethrow_exception(child->exception);
    co_return expired;
}

}  // namespace dedloc::runtime::detail
