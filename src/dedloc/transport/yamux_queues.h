// Queues of a yamux session and its streams: bytes that came, bytes that go, and whose turn it is.

#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>

#include "dedloc/base/bytes.h"
#include "dedloc/base/shared_bytes.h"
#include "dedloc/wire/yamux_frame.h"

namespace dedloc::transport {

class YamuxStream;

// Joins the twelve bytes of a frame's header, in whatever pieces they come.
class HeaderReader {
  public:
    // Takes bytes from the front. Returns the header once it is whole; the view lives until the
    // next call.
    std::optional<ByteView> feed(ByteView& bytes);
    std::uint64_t headers_count() const { return count_; }

  private:
    std::array<std::uint8_t, wire::yamux_header_bytes> header_{};
    std::size_t filled_ = 0;
    std::uint64_t count_ = 0;
};

// Bytes that were received and wait for their reader. Cost: one copy in, one out.
class UnreadBytes {
  public:
    void append(ByteView bytes);
    // Copies what is there, at most `into`.
    std::size_t read(std::span<std::uint8_t> into);
    std::size_t size() const { return size_; }
    void clear();

  private:
    std::deque<Bytes> blocks_;
    std::size_t offset_ = 0;  // read already, of the first block
    std::size_t size_ = 0;
};

// Bytes that wait to be sent.
class SendQueue {
  public:
    void push(SharedBytes bytes);
    // The bytes of the next frame, `bytes_max` at most: straight from the queue, or small pieces
    // joined in `scratch`.
    ByteView next(std::size_t bytes_max, Bytes& scratch) const;
    void consume(std::size_t bytes);
    std::size_t size() const { return size_; }
    void clear();

  private:
    std::deque<SharedBytes> pieces_;
    std::size_t offset_ = 0;  // sent already, of the first piece
    std::size_t size_ = 0;
};

// Streams that have something to send: small ones first, but not for ever.
class StreamTurns {
  public:
    using StreamPtr = std::shared_ptr<YamuxStream>;
    std::deque<StreamPtr>& queue_of(bool is_small) { return is_small ? small_ : bulk_; }
    bool empty() const { return small_.empty() && bulk_.empty(); }
    // Takes the next one out; null: none is left.
    StreamPtr take();
    void clear();

  private:
    std::deque<StreamPtr> small_;
    std::deque<StreamPtr> bulk_;
    int small_in_a_row_ = 0;
};

}  // namespace dedloc::transport
