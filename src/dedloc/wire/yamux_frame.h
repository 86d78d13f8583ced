// yamux's frame header: 12 bytes, big endian: version 0, type, flags, stream id, length.
//
// Source: hashicorp/yamux spec.md, libp2p specs/yamux, and what go- and rust-libp2p really
// accept. Errors: peer_broke_protocol. Thread: any.

#pragma once
#include <array>

#include "dedloc/base/bytes.h"

namespace dedloc::wire {

inline constexpr std::string_view yamux_protocol = "/yamux/1.0.0";
inline constexpr std::size_t yamux_header_bytes = 12;
inline constexpr std::uint32_t yamux_window_bytes_initial = 256 * 1024;
// js-yamux fills a whole window with one frame, and windows end at 16 MiB; rust-libp2p refuses more
// than 1 MiB, go sends at most 64 KiB with header. Payloads are passed on in pieces: a long one
// costs no memory.
inline constexpr std::uint32_t yamux_received_frame_bytes_max = 16 << 20;
inline constexpr std::uint32_t yamux_sent_frame_bytes_max = 64 * 1024 - yamux_header_bytes;
inline constexpr std::uint32_t yamux_session_stream = 0;  // pings and go-aways

enum class YamuxType : std::uint8_t { data = 0, window_update = 1, ping = 2, go_away = 3 };
enum class YamuxGoAway : std::uint32_t { normal = 0, protocol_error = 1, internal_error = 2 };

inline constexpr std::uint16_t yamux_syn = 1;  // opens a stream; in a ping: the question
inline constexpr std::uint16_t yamux_ack = 2;  // accepts it; in a ping: the answer
inline constexpr std::uint16_t yamux_fin = 4;  // half-close
inline constexpr std::uint16_t yamux_rst = 8;  // abort

struct YamuxHeader {
    YamuxType type = YamuxType::data;
    std::uint16_t flags = 0;
    std::uint32_t stream_id = 0;
    std::uint32_t length = 0;  // data: payload bytes; window: delta; ping: value; go-away: reason

    bool has(std::uint16_t flag) const { return (flags & flag) != 0; }
    // Bytes of payload after the header.
    std::uint32_t payload_bytes() const { return type == YamuxType::data ? length : 0; }

    friend bool operator==(const YamuxHeader&, const YamuxHeader&) = default;
};

std::array<std::uint8_t, yamux_header_bytes> encode_yamux_header(const YamuxHeader& header);
void put_yamux_header(Bytes& out, const YamuxHeader& header);

// Refused: other versions, unknown types, data frames longer than yamux_received_frame_bytes_max,
// data or window updates of stream 0, pings and go-aways of another. Unknown flags are ignored.
Result<YamuxHeader> decode_yamux_header(ByteView twelve_bytes);

}  // namespace dedloc::wire
