#include "dedloc/runtime/suspend.h"

#include <asio/associated_cancellation_slot.hpp>
#include <asio/associated_executor.hpp>
#include <asio/async_result.hpp>
#include <asio/error.hpp>
#include <asio/post.hpp>
#include <asio/use_awaitable.hpp>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>

namespace dedloc::runtime {

namespace {

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

struct ParkInitiation {
    std::function<void(std::shared_ptr<Parked>)> start;

    template <typename Handler>
    void operator()(Handler&& handler) {
        using Stored = std::decay_t<Handler>;
        auto parked = std::make_shared<ParkedHandler<Stored>>(std::forward<Handler>(handler));
        parked->listen_for_cancellation();
        std::shared_ptr<Parked> erased = std::move(parked);
        start(std::move(erased));
    }
};

}  // namespace

Task<void> park(std::function<void(std::shared_ptr<Parked>)> start) {
    return asio::async_initiate<const asio::use_awaitable_t<>, void(std::error_code)>(
        ParkInitiation{std::move(start)}, asio::use_awaitable);
}

Task<void> next_turn() {
    return park([](std::shared_ptr<Parked> parked) { parked->resume(); });
}

}  // namespace dedloc::runtime
