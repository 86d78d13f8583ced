// Sets of small numbers, one bit each: number i is bit i % 8, from the lowest, of byte i / 8.

#pragma once
#include <cstddef>

#include "dedloc/base/bytes.h"

namespace dedloc::base {

inline std::size_t bits_bytes(std::size_t count) { return (count + 7) / 8; }  // for 0 to count - 1
// False also beyond the bytes there are.
inline bool has_bit(ByteView bits, std::size_t index) {
    return index / 8 < bits.size() && ((bits[index / 8] >> (index % 8)) & 1) != 0;
}
// Are these the bytes of a set of numbers from 0 to count - 1, and no others?
inline bool are_bits_of(ByteView bits, std::size_t count) {
    if (bits.size() != bits_bytes(count)) return false;
    return count % 8 == 0 || (bits.back() >> (count % 8)) == 0;
}
// Within the bytes there are.
inline void set_bit(Bytes& bits, std::size_t index) {
    bits[index / 8] |= static_cast<std::uint8_t>(1u << (index % 8));
}

}  // namespace dedloc::base
