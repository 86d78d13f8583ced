#include "dedloc/wire/yamux_frame.h"

namespace dedloc::wire {

std::array<std::uint8_t, yamux_header_bytes> encode_yamux_header(const YamuxHeader& header) {
    std::array<std::uint8_t, yamux_header_bytes> bytes{};
    bytes[1] = static_cast<std::uint8_t>(header.type);
    bytes[2] = static_cast<std::uint8_t>(header.flags >> 8);
    bytes[3] = static_cast<std::uint8_t>(header.flags);
    for (std::size_t i = 0; i < 4; ++i) {
        bytes[4 + i] = static_cast<std::uint8_t>(header.stream_id >> (24 - 8 * i));
        bytes[8 + i] = static_cast<std::uint8_t>(header.length >> (24 - 8 * i));
    }
    return bytes;
}

void put_yamux_header(Bytes& out, const YamuxHeader& header) {
    base::append(out, encode_yamux_header(header));
}

Result<YamuxHeader> decode_yamux_header(ByteView twelve_bytes) {
    if (twelve_bytes.size() != yamux_header_bytes)
        return make_error(ErrorKind::peer_broke_protocol, "a yamux header has 12 bytes");
    base::ByteReader reader(twelve_bytes);
    YamuxHeader header;
    DEDLOC_TRY(const std::uint8_t version, reader.u8());
    DEDLOC_TRY(const std::uint8_t type, reader.u8());
    DEDLOC_TRY(header.flags, reader.u16_be());
    DEDLOC_TRY(header.stream_id, reader.u32_be());
    DEDLOC_TRY(header.length, reader.u32_be());
    if (version != 0 || type > static_cast<std::uint8_t>(YamuxType::go_away))
        return make_error(ErrorKind::peer_broke_protocol,
                          "a yamux frame of version {} and type {}",
                          version,
                          type);
    header.type = static_cast<YamuxType>(type);
    const bool of_a_stream =
        header.type == YamuxType::data || header.type == YamuxType::window_update;
    if (of_a_stream == (header.stream_id == yamux_session_stream))
        return make_error(ErrorKind::peer_broke_protocol,
                          "a yamux frame of type {} for stream {}",
                          type,
                          header.stream_id);
    if (header.payload_bytes() > yamux_received_frame_bytes_max)
        return make_error(ErrorKind::peer_broke_protocol,
                          "a yamux data frame of {} bytes; at most {} are accepted",
                          header.length,
                          yamux_received_frame_bytes_max);
    return header;
}

}  // namespace dedloc::wire
