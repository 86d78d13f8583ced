// Compares vectors that should be nearly the same. Shapes: any, of equal length. Thread: any; pure.

#pragma once
#include <cmath>
#include <cstddef>
#include <span>

namespace dedloc::tensor {

// |one - other| / |other|
inline double relative_distance(std::span<const float> one, std::span<const float> other) {
    double squares = 0;
    double length = 0;
    for (std::size_t i = 0; i < one.size(); ++i) {
        const double difference = static_cast<double>(one[i]) - static_cast<double>(other[i]);
        squares += difference * difference;
        length += static_cast<double>(other[i]) * static_cast<double>(other[i]);
    }
    return std::sqrt(squares / length);
}

}  // namespace dedloc::tensor
