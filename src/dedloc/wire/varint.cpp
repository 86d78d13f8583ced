#include "dedloc/wire/varint.h"

#include <algorithm>

namespace dedloc::wire {

std::size_t varint_size(std::uint64_t value) {
    std::size_t size = 1;
    for (; value >= 0x80; value >>= 7) ++size;
    return size;
}

Result<std::uint64_t> read_varint(base::ByteReader& reader) {
    const ByteView rest = reader.rest();
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < std::min(rest.size(), varint_bytes_max); ++i) {
        const std::uint8_t byte = rest[i];
        if (i + 1 == varint_bytes_max && byte > 1)
            return make_error(ErrorKind::bad_input, "a varint does not fit 64 bits");
        value |= static_cast<std::uint64_t>(byte & 0x7f) << (7 * i);
        if (byte >= 0x80) continue;
        DEDLOC_TRY_VOID(reader.take(i + 1));
        return value;
    }
    return make_error(ErrorKind::bad_input, "a varint does not end within {} bytes", rest.size());
}

}  // namespace dedloc::wire
