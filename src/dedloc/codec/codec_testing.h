// For tests of codecs. Of the tests only.
#pragma once
#include <vector>

#include "dedloc/base/random.h"

namespace dedloc::codec {

inline std::vector<float> normal_vector(std::size_t size, std::uint64_t seed) {
    Random random(seed);
    std::vector<float> values(size);
    for (float& value : values) value = static_cast<float>(random.normal());
    return values;
}

}  // namespace dedloc::codec
