// The event loop of the network thread: an io_context that one thread runs.

#include <asio/co_spawn.hpp>
#include <asio/executor_work_guard.hpp>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/signal_set.hpp>
#include <csignal>
#include <exception>
#include <optional>

#include "dedloc/runtime/real.h"

namespace dedloc::runtime {

struct Loop::State {
    // More than one thread posts to it, so the concurrency hint must not be "unsafe".
    asio::io_context context{1};
    std::optional<asio::executor_work_guard<asio::io_context::executor_type>> guard{
        asio::make_work_guard(context)};
};

Loop::Loop() : state_(std::make_unique<State>()) {}
Loop::~Loop() = default;

Executor Loop::executor() { return state_->context.get_executor(); }

void Loop::run() {
    if (state_->context.stopped()) state_->context.restart();
    state_->context.run();
}

void Loop::stop() { state_->context.stop(); }

void Loop::keep_alive(bool keep) {
    if (!keep)
        state_->guard.reset();
    else if (!state_->guard)
        state_->guard.emplace(asio::make_work_guard(state_->context));
}

void Loop::post(std::function<void()> work) { asio::post(state_->context, std::move(work)); }

void Loop::run_task(Task<void> task) {
    bool done = false;
    std::exception_ptr failure;
    auto on_end = [&done, &failure](std::exception_ptr exception) {
        done = true;
        failure = std::move(exception);
    };
    asio::co_spawn(state_->context, std::move(task), on_end);
    if (state_->context.stopped()) state_->context.restart();
    while (!done && state_->context.run_one() > 0) {
    }
    DEDLOC_CHECK(done, "the loop was stopped while run_task was running");
    if (failure) std::rethrow_exception(failure);
}

struct SignalWatcher::State : std::enable_shared_from_this<State> {
    State(Executor executor, std::function<void(int)> given)
        : signals(std::move(executor), SIGINT, SIGTERM), handler(std::move(given)) {}

    void wait() {
        signals.async_wait([self = shared_from_this()](std::error_code error, int) {
            if (error || self->closed) return;
            self->handler(++self->count);
            if (!self->closed) self->wait();
        });
    }

    asio::signal_set signals;
    std::function<void(int)> handler;
    int count = 0;
    bool closed = false;
};

SignalWatcher::SignalWatcher(Executor executor, std::function<void(int count)> handler)
    : state_(std::make_shared<State>(std::move(executor), std::move(handler))) {
    state_->wait();
}

SignalWatcher::~SignalWatcher() {
    state_->closed = true;
    state_->signals.clear();  // gives the signals their default meaning back
    state_->signals.cancel();
}

}  // namespace dedloc::runtime
