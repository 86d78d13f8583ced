#include "dedloc/codec/hivemind_statistics.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "dedloc/tensor/kernels.h"

namespace dedloc::codec {
namespace {

constexpr std::size_t chunk_smallest = 100000;

// A key whose unsigned order is the order of finite floats.
std::uint32_t key_of(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return (bits >> 31) != 0 ? ~bits : bits | 0x80000000u;
}

float float_of(std::uint32_t key) {
    return std::bit_cast<float>((key >> 31) != 0 ? key & 0x7fffffffu : ~key);
}

// Sorts by 11 bits a pass: a few times faster than comparisons on the chunks we have.
void sort_floats(std::span<float> x) {
    constexpr unsigned digit_bits = 11;
    constexpr std::size_t digits = std::size_t{1} << digit_bits;
    std::vector<std::uint32_t> keys(x.size());
    std::vector<std::uint32_t> sorted(x.size());
    std::transform(x.begin(), x.end(), keys.begin(), key_of);
    for (unsigned shift = 0; shift < 32; shift += digit_bits) {
        std::array<std::size_t, digits> place{};
        for (const std::uint32_t key : keys) ++place[(key >> shift) & (digits - 1)];
        std::size_t before = 0;
        for (std::size_t& count : place) before += std::exchange(count, before);
        for (const std::uint32_t key : keys) sorted[place[(key >> shift) & (digits - 1)]++] = key;
        keys.swap(sorted);
    }
    std::transform(keys.begin(), keys.end(), x.begin(), float_of);
}

// numpy.quantile of sorted values, method "linear", at i / (count - 1).
void quantiles_of_sorted(std::span<const float> sorted, std::span<float> out) {
    const double step = 1.0 / static_cast<double>(out.size() - 1);
    for (std::size_t i = 0; i < out.size(); ++i) {
        const bool is_last = i + 1 == out.size();
        const auto fraction = is_last ? 1.0f : static_cast<float>(static_cast<double>(i) * step);
        const float place = static_cast<float>(sorted.size() - 1) * fraction;
        const auto below = static_cast<std::size_t>(std::floor(place));
        if (below + 1 >= sorted.size()) {
            out[i] = sorted.back();
            continue;
        }
        const double t = static_cast<double>(place) - static_cast<double>(below);
        const float difference = sorted[below + 1] - sorted[below];
        const double value =
            t >= 0.5 ? sorted[below + 1] - difference * (1 - t) : sorted[below] + difference * t;
        out[i] = static_cast<float>(value);
    }
}

// hivemind's get_chunk_size: chunks of nearly equal length.
std::size_t chunk_size(std::size_t elements) {
    if (elements <= chunk_smallest) return chunk_smallest;
    const std::size_t chunks = elements / chunk_smallest;
    const std::size_t leftover = elements % chunk_smallest;
    return chunk_smallest + (leftover == 0 ? 0 : (leftover - 1) / chunks + 1);
}

std::array<float, 256> make_dynamic_map() {
    std::array<float, 256> map{};
    std::size_t place = 0;
    double magnitude = 1e-6;
    for (unsigned exponent = 0; exponent < 7; ++exponent, magnitude *= 10) {
        const std::size_t items = std::size_t{1} << exponent;
        for (std::size_t i = 0; i < items; ++i) {
            // Middles of `items` equal pieces of [0.1, 1].
            const double middle =
                0.1 + 0.9 * (static_cast<double>(i) + 0.5) / static_cast<double>(items);
            map[place++] = static_cast<float>(middle * magnitude);
            map[place++] = static_cast<float>(-middle * magnitude);
        }
    }
    map[place++] = 0.0f;
    map[place++] = 1.0f;
    std::sort(map.begin(), map.end());
    return map;
}

}  // namespace

float rounded_mean(std::span<const float> x) {
    // Piece by piece against ones: the kernel sums in double precision, in a fixed order.
    static const std::vector<float> ones(1024, 1.0f);
    double sum = 0;
    for (std::size_t first = 0; first < x.size(); first += ones.size()) {
        const std::size_t count = std::min(ones.size(), x.size() - first);
        sum += tensor::dot(x.subspan(first, count), std::span(ones).first(count));
    }
    return x.empty() ? 0.0f : static_cast<float>(sum) / static_cast<float>(x.size());
}

float rounded_norm(std::span<const float> x) {
    return static_cast<float>(std::sqrt(tensor::sum_of_squares(x)));
}

std::uint8_t borders_below(std::span<const float, 255> borders, float value) {
    // Always the same 8 steps, without a branch to guess.
    std::size_t place = 0;
    for (std::size_t step = 128; step > 0; step /= 2)
        place += borders[place + step - 1] < value ? step : 0;
    return static_cast<std::uint8_t>(place);
}

std::vector<float> estimated_quantiles(std::span<const float> x, std::size_t count) {
    if (x.empty()) return std::vector<float>(count, 0.0f);
    const std::size_t size = chunk_size(x.size());
    std::vector<float> all;
    std::vector<float> chunk;
    for (std::size_t first = 0; first < x.size(); first += size) {
        const auto piece = x.subspan(first, std::min(size, x.size() - first));
        chunk.assign(piece.begin(), piece.end());
        sort_floats(chunk);
        all.resize(all.size() + count);
        quantiles_of_sorted(chunk, std::span(all).last(count));
    }
    sort_floats(all);
    std::vector<float> quantiles(count);
    quantiles_of_sorted(all, quantiles);
    return quantiles;
}

const std::array<float, 256>& dynamic_map() {
    static const std::array<float, 256> map = make_dynamic_map();
    return map;
}

std::uint8_t nearest_in_dynamic_map(float value) {
    const auto& map = dynamic_map();
    // The last entry below (the first for anything smaller), unless the next one is nearer.
    const std::uint8_t left = borders_below(std::span(map).last<255>(), value);
    if (left == 255) return left;
    const auto right = static_cast<std::uint8_t>(left + 1);
    return std::abs(map[right] - value) < std::abs(value - map[left]) ? right : left;
}

}  // namespace dedloc::codec
