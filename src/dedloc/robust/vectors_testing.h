// For tests and measurements of this module.

#pragma once
#include <span>
#include <vector>

namespace dedloc::robust {

inline std::vector<std::span<const float>> views_of(
    const std::vector<std::vector<float>>& vectors) {
    return {vectors.begin(), vectors.end()};
}

}  // namespace dedloc::robust
