#include "dedloc/transport/yamux_memory.h"

#include <algorithm>
#include <utility>

namespace dedloc::transport {

MemoryShare::MemoryShare(std::shared_ptr<StreamMemory> memory, std::function<bool()> is_needed)
    : memory_(memory ? std::move(memory) : std::make_shared<StreamMemory>()),
      is_needed_(std::move(is_needed)) {}

// Whether this session may hold so much of what all sessions of the host hold: no more than is left
// free. So there is a share for one more, however many want all of it, and who holds much is
// refused before those who hold little. Strangers have a part of it; a little everybody may hold.
bool MemoryShare::may_hold(std::size_t held, std::size_t all, std::size_t all_max) const {
    const auto free_of = [all](std::size_t usable) { return usable - std::min(usable, all); };
    if (held <= std::max(memory_->strangers_share_min, free_of(all_max / memory_->strangers_part)))
        return true;
    if (!is_needed_ || !is_needed_()) return false;
    return held <= std::max(connection_share_bytes_min, free_of(all_max));
}

bool MemoryShare::may_receive(std::size_t bytes) const {
    const std::size_t held = received_bytes_ + bytes;
    return held <= connection_received_bytes_max &&
           may_hold(held, memory_->received, memory_->received_max);
}

void MemoryShare::add_received(std::size_t bytes) {
    received_bytes_ += bytes;
    memory_->received += bytes;
}

void MemoryShare::drop_received(std::size_t bytes) {
    received_bytes_ -= bytes;
    memory_->received -= bytes;
}

bool MemoryShare::may_buffer(std::size_t bytes) const {
    return unread_bytes_ + bytes <= connection_unread_bytes_max && may_receive(bytes);
}

bool MemoryShare::may_queue(std::size_t bytes) const {
    return queued_bytes_ + bytes <= connection_queued_bytes_max &&
           may_hold(queued_inbound_bytes_ + bytes, memory_->queued, memory_->queued_max);
}

void MemoryShare::add_queued(std::size_t bytes, bool inbound) {
    queued_bytes_ += bytes;
    if (!inbound) return;
    queued_inbound_bytes_ += bytes;
    memory_->queued += bytes;
}

void MemoryShare::drop_queued(std::size_t bytes, bool inbound) {
    queued_bytes_ -= bytes;
    if (!inbound) return;
    queued_inbound_bytes_ -= bytes;
    memory_->queued -= bytes;
}

}  // namespace dedloc::transport
