// WriterQueue: any thread adds items without waiting; a thread of the queue hands them in order, a
// batch at a time, to a function that may wait for a disk.
//
//   WriterQueue<Record> queue(records_max, [&](const std::deque<Record>& batch, std::uint64_t) {
//       … append them to a file …
//   });
//
// Thread: add() any; the rest the owner's. Limits: items_max wait; more are dropped, and counted.
// Lifetime: what the function uses outlives the queue.

#pragma once
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

namespace dedloc::monitor {

template <typename Item>
class WriterQueue {
  public:
    // Gets a batch, which is never empty, and how many items were dropped since the one before.
    using Write = std::function<void(const std::deque<Item>& batch, std::uint64_t dropped)>;

    WriterQueue(std::size_t items_max, Write write)
        : items_max_(items_max), write_(std::move(write)), thread_([this] { run(); }) {}
    // Returns when all that was added is written.
    ~WriterQueue() {
        {
            const std::lock_guard lock(mutex_);
            closing_ = true;
        }
        work_.notify_all();
        thread_.join();
    }
    WriterQueue(const WriterQueue&) = delete;
    WriterQueue& operator=(const WriterQueue&) = delete;

    void add(Item item) {
        {
            const std::lock_guard lock(mutex_);
            if (items_.size() >= items_max_) {
                ++dropped_;
                return;
            }
            items_.push_back(std::move(item));
        }
        work_.notify_one();
    }
    // Returns when all that was added before is written.
    void flush() {
        std::unique_lock lock(mutex_);
        idle_.wait(lock, [this] { return items_.empty() && !writing_; });
    }

  private:
    void run() {
        std::unique_lock lock(mutex_);
        while (true) {
            work_.wait(lock, [this] { return closing_ || !items_.empty(); });
            if (items_.empty()) return;
            writing_ = true;
            const std::deque<Item> batch = std::exchange(items_, {});
            const std::uint64_t dropped = std::exchange(dropped_, 0);
            lock.unlock();
            write_(batch, dropped);
            lock.lock();
            writing_ = false;
            if (items_.empty()) idle_.notify_all();
        }
    }

    const std::size_t items_max_;
    const Write write_;
    std::mutex mutex_;
    std::condition_variable work_;
    std::condition_variable idle_;
    std::deque<Item> items_;
    std::uint64_t dropped_ = 0;
    bool writing_ = false;
    bool closing_ = false;
    std::thread thread_;  // the last member: it uses the others
};

}  // namespace dedloc::monitor
