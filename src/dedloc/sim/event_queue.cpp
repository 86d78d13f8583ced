#include "dedloc/sim/event_queue.h"

#include <algorithm>

#include "dedloc/base/check.h"

namespace dedloc::sim {

namespace {

constexpr std::size_t children = 4;

EventId make_id(std::uint32_t slot, std::uint32_t generation) {
    return (std::uint64_t{generation} << 32) | (std::uint64_t{slot} + 1);
}
std::uint32_t slot_of(EventId id) { return static_cast<std::uint32_t>((id & 0xffffffffu) - 1); }

}  // namespace

EventId EventQueue::push(TimePoint time, Process* owner, Action action) {
    std::uint32_t slot = 0;
    if (free_slots_.empty()) {
        slot = static_cast<std::uint32_t>(slots_.size());
        slots_.emplace_back();
    } else {
        slot = free_slots_.back();
        free_slots_.pop_back();
    }
    Slot& place = slots_[slot];
    place.action = std::move(action);
    place.owner = owner;
    place.used = true;
    insert(slot, time);
    return make_id(slot, place.generation);
}

void EventQueue::cancel(EventId id) {
    Slot* slot = find(id);
    if (slot == nullptr) return;
    if (slot->position != not_in_heap) remove_at(slot->position);
    release(slot_of(id));
}

EventQueue::Fired EventQueue::pop() {
    DEDLOC_CHECK(!heap_.empty());
    const std::uint32_t slot = heap_.front().slot;
    remove_at(0);
    return {make_id(slot, slots_[slot].generation), slots_[slot].owner};
}

Action EventQueue::take(EventId id) {
    Slot* slot = find(id);
    if (slot == nullptr) return {};
    Action action = std::move(slot->action);
    release(slot_of(id));
    return action;
}

void EventQueue::push_again(EventId id, TimePoint time) {
    const Slot* slot = find(id);
    if (slot == nullptr) return;
    DEDLOC_CHECK(slot->position == not_in_heap);
    insert(slot_of(id), time);
}

void EventQueue::clear() {
    heap_.clear();
    for (Slot& slot : slots_) slot.position = not_in_heap;
    // By index: an action's destructor may cancel other events.
    for (std::uint32_t i = 0; i < slots_.size(); ++i) {
        if (!slots_[i].used) continue;
        const Action dying = std::move(slots_[i].action);
        release(i);
    }
}

EventQueue::Slot* EventQueue::find(EventId id) {
    if (id == 0) return nullptr;
    const std::uint32_t slot = slot_of(id);
    if (slot >= slots_.size()) return nullptr;
    Slot& found = slots_[slot];
    if (!found.used || found.generation != static_cast<std::uint32_t>(id >> 32)) return nullptr;
    return &found;
}

void EventQueue::release(std::uint32_t slot) {
    Slot& freed = slots_[slot];
    freed.used = false;
    ++freed.generation;
    freed.owner = nullptr;
    freed.position = not_in_heap;
    // Moved out first: destroying what the action holds may come back here.
    const Action dying = std::move(freed.action);
    free_slots_.push_back(slot);
}

void EventQueue::insert(std::uint32_t slot, TimePoint time) {
    const Entry entry{time, next_sequence_++, slot};
    heap_.push_back(entry);
    sift_up(heap_.size() - 1, entry);
}

void EventQueue::remove_at(std::size_t position) {
    slots_[heap_[position].slot].position = not_in_heap;
    const Entry last = heap_.back();
    heap_.pop_back();
    if (position == heap_.size()) return;
    if (position > 0 && last.before(heap_[(position - 1) / children]))
        sift_up(position, last);
    else
        sift_down(position, last);
}

void EventQueue::place(std::size_t position, const Entry& entry) {
    heap_[position] = entry;
    slots_[entry.slot].position = position;
}

void EventQueue::sift_up(std::size_t position, Entry entry) {
    while (position > 0) {
        const std::size_t parent = (position - 1) / children;
        if (!entry.before(heap_[parent])) break;
        place(position, heap_[parent]);
        position = parent;
    }
    place(position, entry);
}

void EventQueue::sift_down(std::size_t position, Entry entry) {
    for (;;) {
        const std::size_t first = position * children + 1;
        if (first >= heap_.size()) break;
        const std::size_t end = std::min(first + children, heap_.size());
        std::size_t smallest = first;
        for (std::size_t child = first + 1; child < end; ++child)
            if (heap_[child].before(heap_[smallest])) smallest = child;
        if (!heap_[smallest].before(entry)) break;
        place(position, heap_[smallest]);
        position = smallest;
    }
    place(position, entry);
}

}  // namespace dedloc::sim
