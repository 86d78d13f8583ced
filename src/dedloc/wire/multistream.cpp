#include "dedloc/wire/multistream.h"

#include <utility>

#include "dedloc/base/check.h"

namespace dedloc::wire {

void put_multistream_line(Bytes& out, std::string_view text) {
    DEDLOC_CHECK(text.size() < multistream_line_bytes_max, "a line of {} letters", text.size());
    put_varint(out, text.size() + 1);
    base::append(out, as_bytes(text));
    out.push_back('\n');
}

Bytes multistream_line(std::string_view text) {
    Bytes out;
    put_multistream_line(out, text);
    return out;
}

Result<std::size_t> MultistreamReader::feed(ByteView bytes) {
    if (line_) return std::size_t{0};
    DEDLOC_TRY(const std::size_t taken, reader_.feed(bytes));
    if (auto message = reader_.take()) {
        if (message->empty() || message->back() != '\n')
            return make_error(ErrorKind::peer_broke_protocol,
                              "a protocol negotiation line does not end in a newline");
        line_ = std::string(as_text(ByteView(*message).first(message->size() - 1)));
    }
    return taken;
}

std::optional<std::string> MultistreamReader::take() { return std::exchange(line_, std::nullopt); }

}  // namespace dedloc::wire
