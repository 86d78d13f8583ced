// Waiting for each other inside one thread: Event (something happened), Channel<T> (a bounded
// queue), and with_deadline (a Task that must end in time).
//
// Thread: one executor. Cancel: waiting leaves nothing behind.

#pragma once
#include <deque>
#include <memory>
#include <optional>

#include "dedloc/base/result.h"
#include "dedloc/base/time.h"
#include "dedloc/runtime/clock.h"
#include "dedloc/runtime/task.h"

namespace dedloc::runtime {

// Level-triggered: wait() returns at once while set.
class Event {
  public:
    explicit Event(Executor executor);
    ~Event();
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;

    void set();  // wakes all who wait
    void reset();
    bool is_set() const;
    // Wakes all who wait now, without staying set.
    void pulse();
    Task<void> wait();
    // False if the deadline passed first. Cheaper than with_deadline around wait().
    Task<bool> wait_until(Clock& clock, TimePoint deadline);

    struct State;

  private:
    std::shared_ptr<State> state_;
};

// A bounded queue with one reader. When full, try_push refuses: the caller has a policy.
template <typename T>
class Channel {
  public:
    Channel(Executor executor, std::size_t items_max)
        : items_max_(items_max), readable_(executor), writable_(executor) {
        writable_.set();
    }

    bool try_push(T item) {
        if (closed_ || items_.size() >= items_max_) return false;
        items_.push_back(std::move(item));
        readable_.set();
        if (items_.size() >= items_max_) writable_.reset();
        return true;
    }
    // Waits for room. False if the channel is closed.
    Task<bool> push(T item) {
        while (!closed_ && items_.size() >= items_max_) co_await writable_.wait();
        co_return try_push(std::move(item));
    }
    // Waits for an item; nullopt once the channel is closed and empty.
    Task<std::optional<T>> pop() {
        while (items_.empty() && !closed_) co_await readable_.wait();
        if (items_.empty()) co_return std::nullopt;
        std::optional<T> item(std::move(items_.front()));
        items_.pop_front();
        if (items_.empty() && !closed_) readable_.reset();
        writable_.set();
        co_return item;
    }
    void close() {
        closed_ = true;
        readable_.set();
        writable_.set();
    }
    bool closed() const { return closed_; }
    std::size_t size() const { return items_.size(); }

  private:
    std::size_t items_max_;
    std::deque<T> items_;
    bool closed_ = false;
    Event readable_;
    Event writable_;
};

}  // namespace dedloc::runtime
