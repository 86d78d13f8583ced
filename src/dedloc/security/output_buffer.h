// The ciphertext that waits to be sent. Memory that comes back by recycle() is written over, not
// cleared and grown again: clearing would cost as much as a copy.
//
// Cost: none beside the memory of the largest batch. Thread: any one at a time.

#pragma once
#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "dedloc/base/bytes.h"

namespace dedloc::security {

class OutputBuffer {
  public:
    bool empty() const { return used_ == 0; }
    // Room for `count` more bytes in several pieces, so that memory moves at most once.
    void expect(std::size_t count) {
        const std::size_t needed = used_ + count;
        if (bytes_.capacity() >= needed) return;
        bytes_.reserve(count < bulk_bytes_min ? needed : std::max(needed, batch_bytes_usual));
    }
    // The next `count` bytes, for the caller to write.
    std::span<std::uint8_t> grow(std::size_t count) {
        expect(count);
        if (bytes_.size() < used_ + count) bytes_.resize(used_ + count);
        const std::span<std::uint8_t> place(bytes_.data() + used_, count);
        used_ += count;
        return place;
    }
    void append(ByteView bytes) {
        if (!bytes.empty()) std::memcpy(grow(bytes.size()).data(), bytes.data(), bytes.size());
    }
    Bytes take() {
        bytes_.resize(std::exchange(used_, 0));
        return std::exchange(bytes_, {});
    }
    void recycle(Bytes sent) {
        if (used_ == 0 && sent.capacity() > bytes_.capacity()) bytes_ = std::move(sent);
    }

  private:
    // A batch grows by several calls: from this size on, memory for all of them at once, which is
    // a bulk batch of p2p with its overhead.
    static constexpr std::size_t bulk_bytes_min = 4u << 10;
    static constexpr std::size_t batch_bytes_usual = 144u << 10;

    Bytes bytes_;  // used up to used_; what is behind was written before
    std::size_t used_ = 0;
};

}  // namespace dedloc::security
