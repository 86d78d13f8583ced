#include "dedloc/runtime/scope.h"

#include <asio/bind_cancellation_slot.hpp>
#include <asio/cancellation_signal.hpp>
#include <asio/co_spawn.hpp>
#include <asio/multiple_exceptions.hpp>
#include <asio/post.hpp>
#include <asio/system_error.hpp>
#include <map>
#include <optional>
#include <vector>

#include "dedloc/base/check.h"
#include "dedloc/runtime/event.h"

namespace dedloc::runtime {

namespace {

struct Entry {
    std::string name;
    std::optional<Task<void>> task;  // until it starts
    std::unique_ptr<asio::cancellation_signal> signal;
    bool cancelled = false;  // before it started
};

std::string describe(const std::exception_ptr& exception) {
    try {
        std::rethrow_exception(exception);
    } catch (const std::exception& error) {
        return error.what();
    } catch (...) {
        return "unknown exception";
    }
}

}  // namespace

bool is_cancellation(const std::exception_ptr& exception) {
    try {
        std::rethrow_exception(exception);
    } catch (const asio::multiple_exceptions& several) {
        return is_cancellation(several.first_exception());
    } catch (const std::system_error& error) {
        return error.code() == asio::error::operation_aborted;
    } catch (...) {
        return false;
    }
}

struct Scope::State : std::enable_shared_from_this<State> {
    explicit State(Executor given) : executor(std::move(given)), idle(executor) { idle.set(); }

    void start(TaskId id) {
        const auto found = entries.find(id);
        if (found == entries.end()) return;
        Entry& entry = found->second;
        if (entry.cancelled) {
            entry.task.reset();
            ended(id, nullptr);
            return;
        }
        Task<void> task = std::move(*entry.task);
        entry.task.reset();
        auto on_end = [self = shared_from_this(), id](std::exception_ptr exception) {
            self->ended(id, std::move(exception));
        };
        asio::co_spawn(executor,
                       std::move(task),
                       asio::bind_cancellation_slot(entry.signal->slot(), std::move(on_end)));
    }

    void cancel(TaskId id) {
        const auto found = entries.find(id);
        if (found == entries.end()) return;
        if (found->second.task)
            found->second.cancelled = true;
        else
            found->second.signal->emit(asio::cancellation_type::terminal);
    }

    void ended(TaskId id, const std::exception_ptr& exception) {
        const auto found = entries.find(id);
        DEDLOC_CHECK(found != entries.end());
        if (exception && !is_cancellation(exception))
            DEDLOC_CHECK(
                false, "task \"{}\" ended with: {}", found->second.name, describe(exception));
        // The coroutine's thread may still look at its signal on the way out, so signals are kept
        // for the next task instead of being destroyed here.
        spare_signals.push_back(std::move(found->second.signal));
        entries.erase(found);
        if (entries.empty()) idle.set();
    }

    Executor executor;
    Event idle;
    std::map<TaskId, Entry> entries;
    std::vector<std::unique_ptr<asio::cancellation_signal>> spare_signals;
    TaskId next_id = 1;
    bool stopping = false;
};

Scope::Scope(Executor executor) : state_(std::make_shared<State>(std::move(executor))) {}

Scope::~Scope() {
    DEDLOC_CHECK(state_->entries.empty(), "a Scope was destroyed while these run: {}", names());
}

TaskId Scope::spawn(std::string name, Task<void> task) {
    State& state = *state_;
    if (state.stopping) return 0;
    const TaskId id = state.next_id++;
    std::unique_ptr<asio::cancellation_signal> signal;
    if (state.spare_signals.empty()) {
        signal = std::make_unique<asio::cancellation_signal>();
    } else {
        signal = std::move(state.spare_signals.back());
        state.spare_signals.pop_back();
    }
    state.entries.emplace(id, Entry{std::move(name), std::move(task), std::move(signal), false});
    state.idle.reset();
    asio::post(state.executor, [self = state_, id] { self->start(id); });
    return id;
}

void Scope::cancel_task(TaskId task) { state_->cancel(task); }

void Scope::cancel() {
    state_->stopping = true;
    std::vector<TaskId> ids;
    for (const auto& [id, entry] : state_->entries) ids.push_back(id);
    for (const TaskId id : ids) state_->cancel(id);
}

Task<void> Scope::stop() {
    cancel();
    auto state = state_;
    co_await state->idle.wait();
}

bool Scope::stopping() const { return state_->stopping; }
std::size_t Scope::running() const { return state_->entries.size(); }

std::string Scope::names() const {
    std::string text;
    for (const auto& [id, entry] : state_->entries) {
        if (!text.empty()) text += ", ";
        text += entry.name;
    }
    return text;
}

}  // namespace dedloc::runtime
