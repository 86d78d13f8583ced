// The incremental readers: the first byte chooses the size of the pieces, the second the reader.
// No reader may take more than it was given, or stop making progress without an error.

#include <algorithm>
#include <cstdlib>

#include "dedloc/wire/multistream.h"
#include "dedloc/wire/rpc_frames.h"
#include "dedloc/wire/yamux_frame.h"

namespace {

template <typename Reader>
void read_all(Reader reader, dedloc::ByteView bytes, std::size_t piece) {
    while (!bytes.empty()) {
        const auto taken = reader.feed(bytes.first(std::min(piece, bytes.size())));
        if (!taken) return;
        if (*taken > std::min(piece, bytes.size())) std::abort();
        bytes = bytes.subspan(*taken);
        if (!reader.take() && *taken == 0) std::abort();
    }
    (void)reader.wanted();
}

void read_headers(dedloc::ByteView bytes) {
    for (; bytes.size() >= dedloc::wire::yamux_header_bytes;
         bytes = bytes.subspan(dedloc::wire::yamux_header_bytes)) {
        const auto raw = bytes.first(dedloc::wire::yamux_header_bytes);
        const auto header = dedloc::wire::decode_yamux_header(raw);
        if (header && !dedloc::base::equal(dedloc::wire::encode_yamux_header(*header), raw))
            std::abort();
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 2) return 0;
    const std::size_t piece = data[0] % 32 + 1u;
    const dedloc::ByteView bytes(data + 2, size - 2);
    switch (data[1] % 4) {
        case 0:
            read_all(dedloc::wire::LengthPrefixReader(1000), bytes, piece);
            break;
        case 1:
            read_all(dedloc::wire::MultistreamReader(), bytes, piece);
            break;
        case 2:
            read_all(dedloc::wire::StreamRecordReader(1000), bytes, piece);
            break;
        default:
            read_headers(bytes);
    }
    return 0;
}
