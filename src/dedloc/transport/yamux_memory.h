// The memory that yamux sessions of one host hold for their streams, and one session's share of it.

#pragma once
#include <functional>
#include <memory>

#include "dedloc/transport/limits.h"

namespace dedloc::transport {

// Memory that all sessions of one host hold for their streams.
struct StreamMemory {
    // Bytes that were received and are not read, or belong to a message that is not complete.
    std::size_t received = 0;
    std::size_t received_max = host_received_bytes_max;
    // Bytes that are queued on streams which the other sides opened.
    std::size_t queued = 0;
    std::size_t queued_max = host_queued_bytes_max;
    // Strangers have one part in so many, and each of them a little always.
    std::size_t strangers_part = 2;
    std::size_t strangers_share_min = connection_share_bytes_min;
};

class MemoryShare {
  public:
    // `memory` null: its own. `is_needed` says whether the peer is none of the strangers; may be
    // empty.
    MemoryShare(std::shared_ptr<StreamMemory> memory, std::function<bool()> is_needed);

    // So many bytes more that wait to be read, or for the rest of their message.
    bool may_receive(std::size_t bytes) const;
    void add_received(std::size_t bytes);
    void drop_received(std::size_t bytes);
    // Bytes that wait to be read count among them, and have a limit of their own, too.
    bool may_buffer(std::size_t bytes) const;
    void add_unread(std::size_t bytes) { unread_bytes_ += bytes; }
    void drop_unread(std::size_t bytes) { unread_bytes_ -= bytes; }

    // So many bytes more on streams that the other side opened.
    bool may_queue(std::size_t bytes) const;
    void add_queued(std::size_t bytes, bool inbound);
    void drop_queued(std::size_t bytes, bool inbound);
    std::size_t queued_bytes() const { return queued_bytes_; }

  private:
    bool may_hold(std::size_t held, std::size_t all, std::size_t all_max) const;

    std::shared_ptr<StreamMemory> memory_;
    std::function<bool()> is_needed_;
    std::size_t received_bytes_ = 0;
    std::size_t unread_bytes_ = 0;
    std::size_t queued_bytes_ = 0;
    std::size_t queued_inbound_bytes_ = 0;
};

}  // namespace dedloc::transport
