// Orders what happens next in virtual time: a heap of (time, sequence number), so that events of
// the same time happen in the order in which they were made, on every machine and with every
// compiler.
//
// Cost: O(log n) to push, pop and cancel. Thread: one.

#pragma once
#include <cstdint>
#include <deque>
#include <vector>

#include "dedloc/base/time.h"
#include "dedloc/sim/action.h"

namespace dedloc::sim {

class Process;

using EventId = std::uint64_t;  // never reused; 0 is nobody

class EventQueue {
  public:
    struct Fired {
        EventId id = 0;
        Process* owner = nullptr;
    };

    EventId push(TimePoint time, Process* owner, Action action);
    // Harmless if it has happened.
    void cancel(EventId id);
    bool empty() const { return heap_.empty(); }
    std::size_t size() const { return heap_.size(); }
    TimePoint next_time() const { return heap_.front().time; }

    // Takes the first event out of the order; it stays alive until take() or push_again().
    Fired pop();
    Action take(EventId id);                      // empty if it was cancelled
    void push_again(EventId id, TimePoint time);  // of one that was popped and held back
    void clear();

  private:
    static constexpr std::size_t not_in_heap = ~std::size_t{0};

    struct Entry {
        TimePoint time;
        std::uint64_t sequence;
        std::uint32_t slot;
        bool before(const Entry& other) const {
            return time != other.time ? time < other.time : sequence < other.sequence;
        }
    };
    struct Slot {
        Action action;
        Process* owner = nullptr;
        std::size_t position = not_in_heap;
        std::uint32_t generation = 0;
        bool used = false;
    };

    Slot* find(EventId id);
    void release(std::uint32_t slot);
    void insert(std::uint32_t slot, TimePoint time);
    void remove_at(std::size_t position);
    void place(std::size_t position, const Entry& entry);
    void sift_up(std::size_t position, Entry entry);
    void sift_down(std::size_t position, Entry entry);

    std::vector<Entry> heap_;  // four children a node
    std::deque<Slot> slots_;
    std::vector<std::uint32_t> free_slots_;
    std::uint64_t next_sequence_ = 0;
};

}  // namespace dedloc::sim
