// park: suspends the awaiting coroutine until somebody resumes it. The one place where waiting is
// built; Event, clocks and virtual networks stand on it.
//
//   auto start = [&](std::shared_ptr<Parked> parked) { waiters.push_back(std::move(parked)); };
//   co_await park(start);              // elsewhere: waiter->resume();
//
// Resuming goes through post, so whoever resumes is never re-entered. Cancelling the awaiting Task
// throws out of co_await at once and leaves a done() Parked behind, whose resume() does nothing.
//
// Thread: the executor's, all of it. Cost: one allocation and one post a wait.

#pragma once
#include <asio/associated_cancellation_slot.hpp>
#include <asio/async_result.hpp>
#include <asio/error.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>
#include <memory>
#include <optional>
#include <system_error>
#include <utility>

#include "dedloc/runtime/task.h"

namespace dedloc::runtime {

class Parked {
  public:
    Parked() = default;
    virtual ~Parked() = default;
    Parked(const Parked&) = delete;
    Parked& operator=(const Parked&) = delete;

    virtual void resume() = 0;  // only the first call counts
    virtual bool done() const = 0;
};

namespace detail {

template <typename Handler>
class ParkedHandler final : public Parked,
                            public std::enable_shared_from_this<ParkedHandler<Handler>> {
  public:
    explicit ParkedHandler(Handler handler) : handler_(std::move(handler)) {}

    void listen_for_cancellation() {
        slot_ = asio::get_associated_cancellation_slot(*handler_);
        if (!slot_.is_connected()) return;
        slot_.assign([weak = this->weak_from_this()](asio::cancellation_type) {
            // The slot must not be cleared from inside itself: complete() leaves it alone.
            if (auto self = weak.lock()) self->complete(asio::error::operation_aborted);
        });
    }

    void resume() override {
        if (!handler_) return;
        if (slot_.is_connected()) slot_.clear();
        complete(std::error_code());
    }
    bool done() const override { return !handler_; }

  private:
    void complete(std::error_code error) {
        if (!handler_) return;
        Handler handler = std::move(*handler_);
        handler_.reset();
        auto executor = asio::get_associated_executor(handler);
        asio::post(executor, [handler = std::move(handler), error]() mutable { handler(error); });
    }

    std::optional<Handler> handler_;
    asio::cancellation_slot slot_;
};

template <typename Start>
struct ParkInitiation {
    Start start;

    template <typename Handler>
    void operator()(Handler&& handler) {
        using Stored = std::decay_t<Handler>;
        auto parked = std::make_shared<ParkedHandler<Stored>>(std::forward<Handler>(handler));
        parked->listen_for_cancellation();
        std::shared_ptr<Parked> erased = std::move(parked);
        start(std::move(erased));
    }
};

}  // namespace detail

// `start(std::shared_ptr<Parked>)` is called once, when the coroutine has been suspended.
template <typename Start>
Task<void> park(Start start) {
    return asio::async_initiate<const asio::use_awaitable_t<>, void(std::error_code)>(
        detail::ParkInitiation<Start>{std::move(start)}, asio::use_awaitable);
}

}  // namespace dedloc::runtime
