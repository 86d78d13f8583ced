// hivemind's two framings of remote calls on a libp2p stream, as its daemon (p2pd) writes them.
//
// Unary: uvarint length ‖ PersistentConnectionRequest, both ways: the answer has the same message
// type. Streaming: records of marker (1) ‖ length (8, big endian) ‖ payload; marker 1 holds an
// RpcError; an empty one ends the caller's input, the end of the stream ends the output.
//
// Source: go-libp2p-daemon (learning-at-home fork), hivemind.md §B.5–B.6; golden bytes in
// tests/vectors. Cost: one copy of the payload each way. Thread: any.
// Errors: peer_broke_protocol.

#pragma once
#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "dedloc/base/bytes.h"
#include "dedloc/base/fields.h"
#include "dedloc/wire/length_prefix.h"
#include "dedloc/wire/message.h"

namespace dedloc::wire {

// The daemon's limit for a whole unary envelope.
inline constexpr std::size_t unary_envelope_bytes_max = 4 << 20;
// An envelope adds this to its data at most, with a method of method_bytes_max letters.
inline constexpr std::size_t unary_overhead_bytes_max = 640;
inline constexpr std::size_t method_bytes_max = 512;

// A random UUID: the responder's daemon tells calls of all its callers apart by it alone.
using CallId = std::array<std::uint8_t, 16>;

struct UnaryRequest {
    CallId id{};
    std::string method;
    Bytes data;
};

// Exactly one of the two.
struct UnaryResponse {
    CallId id{};
    std::optional<Bytes> response;
    std::optional<Bytes> error;  // text for people; Python's repr of the exception
};

// With the length in front, ready to be sent.
Bytes encode_unary_request(const CallId& id, std::string_view method, ByteView data);
Bytes encode_unary_response(const CallId& id, ByteView data);
Bytes encode_unary_error(const CallId& id, std::string_view text);

// Decodes an envelope without its length, as LengthPrefixReader(unary_envelope_bytes_max) gives it.
Result<UnaryRequest> decode_unary_request(ByteView envelope);
Result<UnaryResponse> decode_unary_response(ByteView envelope);

struct RpcError {
    std::string message;

    DEDLOC_FIELDS(message)
};

// An Error as text that comes back as the same kind between dedloc peers and that a Python peer
// can show. Kinds that only make sense at home (cancelled, local fault) arrive as peer_gone, and
// so do the exceptions of foreign handlers. The text is cut and made printable (base/printable.h).
inline constexpr std::size_t error_text_bytes_max = 1024;
std::string error_to_text(const Error& error);
Error error_from_text(std::string_view text);

enum class StreamMarker : std::uint8_t { message = 0, error = 1 };
inline constexpr std::size_t stream_header_bytes = 9;

struct StreamRecord {
    StreamMarker marker = StreamMarker::message;
    Bytes payload;
};

std::array<std::uint8_t, stream_header_bytes> encode_stream_header(StreamMarker marker,
                                                                   std::uint64_t payload_bytes);
Bytes encode_stream_message(ByteView payload);
Bytes encode_stream_error(std::string_view text);  // an empty text: the end of the input
inline Bytes encode_stream_end() { return encode_stream_error({}); }

// The text of an error record; empty for the end of the input.
Result<std::string> decode_stream_error(ByteView payload);

// Records from bytes in any pieces; as LengthPrefixReader.
class StreamRecordReader {
  public:
    explicit StreamRecordReader(std::size_t payload_bytes_max)
        : payload_bytes_max_(payload_bytes_max) {}

    Result<std::size_t> feed(ByteView bytes);
    std::optional<StreamRecord> take();
    std::size_t wanted() const;
    bool in_the_middle() const { return !complete_ && header_size_ > 0; }

  private:
    Ok read_header();

    std::size_t payload_bytes_max_;
    std::array<std::uint8_t, stream_header_bytes> header_{};
    std::size_t header_size_ = 0;
    std::size_t size_ = 0;
    bool complete_ = false;
    bool failed_ = false;
    StreamRecord record_;
};

}  // namespace dedloc::wire
