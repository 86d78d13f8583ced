// multistream-select 1.0: lines by which two sides agree on a protocol.
//
// A line is uvarint(size with newline) ‖ text ‖ '\n'. Both send the header first; the initiator
// proposes, the responder repeats the proposal or says "na". Initiators may send header, proposal
// and application data at once, so a reader must leave every byte after its line alone.
//
// Source: libp2p specs/connections. Errors: peer_broke_protocol. Thread: any.

#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "dedloc/wire/length_prefix.h"

namespace dedloc::wire {

inline constexpr std::string_view multistream_header = "/multistream/1.0.0";
inline constexpr std::string_view multistream_refusal = "na";
inline constexpr std::size_t multistream_line_bytes_max = 1024;

// `text` without newline; longer than multistream_line_bytes_max - 1 is our bug.
void put_multistream_line(Bytes& out, std::string_view text);
Bytes multistream_line(std::string_view text);

class MultistreamReader {
  public:
    // As LengthPrefixReader::feed.
    Result<std::size_t> feed(ByteView bytes);
    std::optional<std::string> take();  // a line without its newline
    std::size_t wanted() const { return line_ ? 0 : reader_.wanted(); }

  private:
    LengthPrefixReader reader_{multistream_line_bytes_max};
    std::optional<std::string> line_;
};

}  // namespace dedloc::wire
