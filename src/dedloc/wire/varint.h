// Unsigned LEB128, as in protobuf and in multiformats' uvarint.

#pragma once
#include <cstdint>

#include "dedloc/base/bytes.h"

namespace dedloc::wire {

inline constexpr std::size_t varint_bytes_max = 10;

inline void put_varint(Bytes& out, std::uint64_t value) {
    while (value >= 0x80) {
        out.push_back(static_cast<std::uint8_t>(value | 0x80));
        value >>= 7;
    }
    out.push_back(static_cast<std::uint8_t>(value));
}

std::size_t varint_size(std::uint64_t value);

// bad_input: the bytes end inside the varint, or it does not fit 64 bits.
Result<std::uint64_t> read_varint(base::ByteReader& reader);

}  // namespace dedloc::wire
