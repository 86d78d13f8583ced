#include "dedloc/optim/code_book.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "dedloc/base/check.h"
#include "dedloc/base/float_environment.h"

namespace dedloc::optim {
namespace {

constexpr int decades = 7;

// The values of one decade: the middles of equal pieces of [0.1, 1].
void add_decade(int decade, bool has_sign, std::vector<float>& values) {
    const int pieces = has_sign ? 1 << decade : 2 << decade;
    double scale = 1;
    for (int i = decade + 1; i < decades; ++i) scale = scale / 10;
    for (int i = 0; i < pieces; ++i) {
        const double middle = 0.1 + 0.9 * (i + 0.5) / pieces;
        const auto value = static_cast<float>(scale * middle);
        values.push_back(value);
        if (has_sign) values.push_back(-value);
    }
}

// The largest float that is not above the middle of two: comparing floats with it is exact.
float threshold_between(float low, float high) {
    const double middle = (static_cast<double>(low) + static_cast<double>(high)) / 2;
    const auto rounded = static_cast<float>(middle);
    const float below = -std::numeric_limits<float>::infinity();
    return static_cast<double>(rounded) > middle ? std::nextafter(rounded, below) : rounded;
}

}  // namespace

CodeBook::CodeBook(bool has_sign) {
    const FloatEnvironmentGuard guard;
    std::vector<float> values = {0.0f, 1.0f};
    for (int decade = 0; decade < decades; ++decade) add_decade(decade, has_sign, values);
    std::ranges::sort(values);
    DEDLOC_CHECK(values.size() == codes_count);
    std::ranges::copy(values, values_.begin());
    for (std::size_t i = 0; i + 1 < codes_count; ++i) {
        thresholds_[i] = threshold_between(values_[i], values_[i + 1]);
    }
    thresholds_.back() = std::numeric_limits<float>::infinity();
    for (std::int32_t bucket = 0; bucket < 2 * buckets_count; ++bucket) {
        const bool negative = bucket >= buckets_count;
        const std::int32_t place = negative ? bucket - buckets_count : bucket;
        // The smallest number of the bucket: of negative ones that of the largest magnitude.
        const auto bits = static_cast<std::uint32_t>(lowest_bits + place) << 16;
        float smallest = place == 0 ? 0.0f : std::bit_cast<float>(bits);
        if (negative) smallest = -std::bit_cast<float>(bits | 0xffffu);
        const auto above = std::ranges::lower_bound(thresholds_, smallest);
        first_[static_cast<std::size_t>(bucket)] =
            static_cast<std::int32_t>(above - thresholds_.begin());
    }
}

std::uint8_t CodeBook::nearest(float x) const {
    const auto bits = std::bit_cast<std::uint32_t>(x);
    const auto magnitude = static_cast<std::int32_t>((bits & 0x7fffffffu) >> 16);
    std::int32_t bucket = std::clamp(magnitude - lowest_bits, 0, buckets_count - 1);
    if ((bits >> 31) != 0) bucket += buckets_count;
    const std::int32_t code = first_[static_cast<std::size_t>(bucket)];
    const bool above = x > thresholds_[static_cast<std::size_t>(code)];
    return static_cast<std::uint8_t>(code + (above ? 1 : 0));
}

const CodeBook& CodeBook::with_sign() {
    static const CodeBook book(true);
    return book;
}

const CodeBook& CodeBook::from_zero() {
    static const CodeBook book(false);
    return book;
}

}  // namespace dedloc::optim
