#include "dedloc/wire/varint.h"

namespace dedloc::wire {

std::size_t varint_size(std::uint64_t value) {
    std::size_t size = 1;
    for (; value >= 0x80; value >>= 7) ++size;
    return size;
}

Result<std::uint64_t> read_varint(base::ByteReader& reader) {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        DEDLOC_TRY(const std::uint8_t byte, reader.u8());
        if (shift == 63 && byte > 1)
            return make_error(ErrorKind::bad_input, "a varint does not fit 64 bits");
        value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
        if (byte < 0x80) return value;
    }
    return make_error(ErrorKind::bad_input, "a varint is longer than 10 bytes");
}

}  // namespace dedloc::wire
