// For tests of kernels: every instruction set of this machine, and equality of bits.
#pragma once
#include <cstring>
#include <gtest/gtest.h>
#include <span>

#include "dedloc/tensor/each_target.h"

namespace dedloc::tensor {

template <typename Body>
void on_every_target(Body body) {
    const int targets_count = for_each_target([&](const char* name) {
        SCOPED_TRACE(name);
        body();
    });
    EXPECT_GE(targets_count, 1);
}

inline bool same_bits(std::span<const float> a, std::span<const float> b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * 4) == 0;
}

}  // namespace dedloc::tensor
