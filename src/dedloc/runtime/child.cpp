#include "dedloc/runtime/child.h"

#include <asio/associated_cancellation_slot.hpp>
#include <asio/associated_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/bind_cancellation_slot.hpp>
#include <asio/co_spawn.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>
#include <utility>

namespace dedloc::runtime::detail {

namespace {

struct ChildInitiation {
    Executor executor;
    std::shared_ptr<Child> child;
    std::shared_ptr<Task<void>> body;  // initiations are copied around; a Task only moves

    template <typename Handler>
    void operator()(Handler&& handler) {
        auto slot = asio::get_associated_cancellation_slot(handler);
        if (slot.is_connected()) {
            slot.assign([child = std::weak_ptr<Child>(child)](asio::cancellation_type) {
                if (auto alive = child.lock())
                    alive->signal.emit(asio::cancellation_type::terminal);
            });
        }
        auto resume = [kept = child, handler = std::forward<Handler>(handler)](
                          std::exception_ptr exception) mutable {
            kept->exception = std::move(exception);
            auto home = asio::get_associated_executor(handler);
            // Through post, so that the child's coroutine thread is gone when the parent goes on.
            asio::post(home, [kept, handler = std::move(handler)]() mutable {
                handler(std::error_code());
            });
        };
        asio::co_spawn(executor,
                       std::move(*body),
                       asio::bind_cancellation_slot(child->signal.slot(), std::move(resume)));
    }
};

}  // namespace

Task<void> run_child(Executor executor, std::shared_ptr<Child> child, Task<void> body) {
    auto shared_body = std::make_shared<Task<void>>(std::move(body));
    ChildInitiation initiation{std::move(executor), std::move(child), std::move(shared_body)};
    return asio::async_initiate<const asio::use_awaitable_t<>, void(std::error_code)>(
        std::move(initiation), asio::use_awaitable);
}

}  // namespace dedloc::runtime::detail
