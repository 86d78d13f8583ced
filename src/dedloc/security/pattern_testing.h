// For tests: bytes of which no two neighbouring pieces are alike. Of the tests only.

#pragma once
#include "dedloc/base/bytes.h"

namespace dedloc::security {

inline Bytes pattern(std::size_t size) {
    Bytes bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::uint8_t>(i * 7 + i / 251);
    return bytes;
}

}  // namespace dedloc::security
