// Messages on a stream with a uvarint of their length in front: identify, relay, unary calls,
// and, with a newline at the end, multistream-select.
//
// The reader takes bytes in any pieces and never takes one byte more than its message, because
// what follows may belong to another protocol (lazy negotiation, a relayed connection).
//
// Limits: a message is at most the constructor's bytes_max; the buffer grows with the bytes that
// really came, not with the length that was claimed.
// Errors: peer_broke_protocol. Thread: any.

#pragma once
#include <optional>

#include "dedloc/base/bytes.h"
#include "dedloc/wire/varint.h"

namespace dedloc::wire {

Bytes with_length_prefix(ByteView message);

class LengthPrefixReader {
  public:
    explicit LengthPrefixReader(std::size_t bytes_max) : bytes_max_(bytes_max) {}

    // Takes what belongs to the next message and returns how many bytes that was; 0 while a
    // finished message waits. After an error nothing more is taken.
    Result<std::size_t> feed(ByteView bytes);
    std::optional<Bytes> take();
    // How many bytes would certainly belong to this message: read no more from the network.
    // 1 while the length is not complete, 0 while a message waits.
    std::size_t wanted() const;
    // The stream ended here: is something cut off?
    bool in_the_middle() const { return !complete_ && (!header_.empty() || size_known_); }

  private:
    Ok receive_header_byte(std::uint8_t byte);

    std::size_t bytes_max_;
    Bytes header_;  // of the length, while it is not complete
    std::size_t size_ = 0;
    bool size_known_ = false;
    bool complete_ = false;
    bool failed_ = false;
    Bytes message_;
};

}  // namespace dedloc::wire
