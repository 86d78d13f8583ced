#include "dedloc/wire/message.h"

namespace dedloc::wire::detail {

Result<ByteView> read_bytes(base::ByteReader& reader) {
    DEDLOC_TRY(const std::uint64_t size, read_varint(reader));
    if (size > reader.remaining())
        return make_error(
            ErrorKind::bad_input, "a field of {} bytes, {} left", size, reader.remaining());
    return reader.take(static_cast<std::size_t>(size));
}

Ok skip_field(base::ByteReader& reader, WireType type) {
    switch (type) {
        case WireType::varint: {
            DEDLOC_TRY_VOID(read_varint(reader));
            return {};
        }
        case WireType::fixed64: {
            DEDLOC_TRY_VOID(reader.take(8));
            return {};
        }
        case WireType::bytes: {
            DEDLOC_TRY_VOID(read_bytes(reader));
            return {};
        }
        case WireType::fixed32: {
            DEDLOC_TRY_VOID(reader.take(4));
            return {};
        }
    }
    return make_error(ErrorKind::bad_input, "unknown wire type {}", static_cast<int>(type));
}

Error too_many(std::uint32_t number, std::size_t elements_max) {
    return make_error(
        ErrorKind::bad_input, "field {} has more than {} elements", number, elements_max);
}

Error wrong_type(std::uint32_t number) {
    return make_error(ErrorKind::bad_input, "field {} has another wire type", number);
}

}  // namespace dedloc::wire::detail
