#include "dedloc/codec/topk.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "dedloc/base/float_environment.h"
#include "dedloc/codec/codec.h"
#include "dedloc/tensor/kernels.h"

namespace dedloc::codec {
namespace {

constexpr std::size_t place_bits = 12;
constexpr std::size_t value_bits = 2;
static_assert(std::size_t{1} << place_bits == topk_chunk);

std::size_t kept_of(std::size_t kept, std::size_t elements) {
    return (kept * elements + topk_chunk - 1) / topk_chunk;
}

std::size_t chunk_bytes(std::size_t k) {
    return 8 + (place_bits * k + 7) / 8 + (value_bits * k + 7) / 8;
}

void write_bits(std::span<std::uint8_t> out, std::size_t at, std::uint32_t value, std::size_t n) {
    for (std::size_t i = 0; i < n; ++i, ++at)
        out[at / 8] |= static_cast<std::uint8_t>(((value >> i) & 1u) << (at % 8));
}

std::uint32_t read_bits(ByteView in, std::size_t at, std::size_t n) {
    std::uint32_t value = 0;
    for (std::size_t i = 0; i < n; ++i, ++at)
        value |= static_cast<std::uint32_t>((in[at / 8] >> (at % 8)) & 1) << i;
    return value;
}

// One chunk, as it is on the wire.
struct Chunk {
    float small = 0;
    float large = 0;
    std::size_t kept = 0;
    std::array<std::uint16_t, topk_chunk> places;
    std::array<std::uint8_t, topk_chunk> codes;

    float value(std::size_t i) const {
        const float magnitude = (codes[i] & 2) != 0 ? large : small;
        return (codes[i] & 1) != 0 ? -magnitude : magnitude;
    }
};

std::uint32_t magnitude_bits(float value) {
    return std::bit_cast<std::uint32_t>(value) & 0x7fffffffu;
}

// The `rank`-th largest of the magnitudes, from 1. A histogram of sign-less exponents and three
// bits leaves few to compare.
std::uint32_t ranked_magnitude(std::span<const std::uint32_t> magnitudes, std::size_t rank) {
    constexpr unsigned shift = 20;
    std::array<std::uint16_t, std::size_t{1} << (31 - shift)> histogram{};
    for (const std::uint32_t bits : magnitudes) ++histogram[bits >> shift];
    std::size_t bucket = histogram.size() - 1;
    while (histogram[bucket] < rank) rank -= histogram[bucket--];
    std::array<std::uint32_t, topk_chunk> candidates;
    std::size_t count = 0;
    for (const std::uint32_t bits : magnitudes) {
        candidates[count] = bits;
        count += bits >> shift == bucket ? 1 : 0;
    }
    const auto place = candidates.begin() + static_cast<std::ptrdiff_t>(rank) - 1;
    const auto end = candidates.begin() + static_cast<std::ptrdiff_t>(count);
    std::nth_element(candidates.begin(), place, end, std::greater<>());
    return *place;
}

// Places of the `kept` largest magnitudes, ascending.
void select(std::span<const float> values, std::size_t kept, Chunk& chunk) {
    std::array<std::uint32_t, topk_chunk> all;
    for (std::size_t i = 0; i < values.size(); ++i) all[i] = magnitude_bits(values[i]);
    const std::span<const std::uint32_t> magnitudes = std::span(all).first(values.size());
    const std::uint32_t threshold = ranked_magnitude(magnitudes, kept);
    std::size_t above = 0;
    for (const std::uint32_t bits : magnitudes) above += bits > threshold ? 1 : 0;
    // All above the threshold, and of those equal to it the first.
    std::size_t equal_left = kept - above;
    chunk.kept = 0;
    for (std::size_t i = 0; i < magnitudes.size(); ++i) {
        const std::uint32_t bits = magnitudes[i];
        if (bits < threshold || (bits == threshold && equal_left == 0)) continue;
        if (bits == threshold) --equal_left;
        chunk.places[chunk.kept++] = static_cast<std::uint16_t>(i);
    }
}

// Two-means clustering of the kept magnitudes: a few rounds from their mean.
void quantize(std::span<const float> values, Chunk& chunk) {
    const auto magnitude = [&](std::size_t i) {
        return static_cast<double>(std::abs(values[chunk.places[i]]));
    };
    double border = 0;
    for (std::size_t i = 0; i < chunk.kept; ++i) border += magnitude(i);
    border /= static_cast<double>(chunk.kept);
    double means[2] = {};
    for (int round = 0; round < 6; ++round) {
        double sums[2] = {};
        std::size_t counts[2] = {};
        for (std::size_t i = 0; i < chunk.kept; ++i) {
            const std::size_t half = magnitude(i) > border ? 1 : 0;
            sums[half] += magnitude(i);
            ++counts[half];
        }
        // Rounding may lift a mean of equal numbers above them: then one half is empty.
        for (std::size_t half = 0; half < 2; ++half)
            means[half] = counts[half] == 0 ? sums[1 - half] / static_cast<double>(counts[1 - half])
                                            : sums[half] / static_cast<double>(counts[half]);
        border = (means[0] + means[1]) / 2;
    }
    chunk.small = static_cast<float>(means[0]);
    chunk.large = static_cast<float>(means[1]);
    for (std::size_t i = 0; i < chunk.kept; ++i) {
        const bool negative = std::signbit(values[chunk.places[i]]);
        const bool large = magnitude(i) > border;
        chunk.codes[i] = static_cast<std::uint8_t>((negative ? 1 : 0) | (large ? 2 : 0));
    }
}

void write_chunk(const Chunk& chunk, std::span<std::uint8_t> out) {
    std::fill(out.begin(), out.end(), std::uint8_t{0});
    std::memcpy(out.data(), &chunk.small, 4);
    std::memcpy(out.data() + 4, &chunk.large, 4);
    const std::span<std::uint8_t> places = out.subspan(8);
    const std::span<std::uint8_t> codes = places.subspan((place_bits * chunk.kept + 7) / 8);
    for (std::size_t i = 0; i < chunk.kept; ++i) {
        write_bits(places, place_bits * i, chunk.places[i], place_bits);
        write_bits(codes, value_bits * i, chunk.codes[i], value_bits);
    }
}

// False if encode cannot have written these bytes.
bool read_chunk(ByteView in, std::size_t elements, std::size_t kept, Chunk& chunk) {
    std::memcpy(&chunk.small, in.data(), 4);
    std::memcpy(&chunk.large, in.data() + 4, 4);
    if (!std::isfinite(chunk.large) || !(chunk.small >= 0) || !(chunk.small <= chunk.large))
        return false;
    chunk.kept = kept;
    const ByteView places = in.subspan(8);
    const ByteView codes = places.subspan((place_bits * kept + 7) / 8);
    for (std::size_t i = 0; i < kept; ++i) {
        chunk.places[i] = static_cast<std::uint16_t>(read_bits(places, place_bits * i, place_bits));
        chunk.codes[i] = static_cast<std::uint8_t>(read_bits(codes, value_bits * i, value_bits));
        if (chunk.places[i] >= elements || (i > 0 && chunk.places[i] <= chunk.places[i - 1]))
            return false;
    }
    return true;
}

// Calls body(first element, chunk) for every chunk of sound bytes.
template <typename Body>
Ok for_each_chunk(const TopK& codec, ByteView encoded, std::size_t elements_count, Body body) {
    if (encoded.size() != codec.encoded_size(elements_count))
        return make_error(ErrorKind::bad_input,
                          "{} elements in top-k are {} bytes, but {} came",
                          elements_count,
                          codec.encoded_size(elements_count),
                          encoded.size());
    Chunk chunk;
    for (std::size_t first = 0; first < elements_count; first += topk_chunk) {
        const std::size_t count = std::min(topk_chunk, elements_count - first);
        const std::size_t kept = kept_of(codec.kept, count);
        if (!read_chunk(encoded.first(chunk_bytes(kept)), count, kept, chunk))
            return make_error(
                ErrorKind::bad_input, "the top-k chunk at element {} makes no sense", first);
        body(first, chunk);
        encoded = encoded.subspan(chunk_bytes(kept));
    }
    return {};
}

}  // namespace

std::size_t TopK::encoded_size(std::size_t elements_count) const {
    DEDLOC_CHECK(kept >= 1 && kept <= topk_chunk, "top-{}", kept);
    const std::size_t rest = elements_count % topk_chunk;
    const std::size_t last = rest == 0 ? 0 : chunk_bytes(kept_of(kept, rest));
    return elements_count / topk_chunk * chunk_bytes(kept) + last;
}

Result<Bytes> TopK::encode(std::span<const float> values) const {
    if (!tensor::all_finite(values))
        return make_error(ErrorKind::bad_input, "numbers that are not finite have no top-k");
    const FloatEnvironmentGuard guard;
    Bytes bytes(encoded_size(values.size()));
    std::span<std::uint8_t> out(bytes);
    Chunk chunk;
    for (std::size_t first = 0; first < values.size(); first += topk_chunk) {
        const std::size_t count = std::min(topk_chunk, values.size() - first);
        const std::size_t k = kept_of(kept, count);
        const std::span<const float> piece = values.subspan(first, count);
        select(piece, k, chunk);
        quantize(piece, chunk);
        write_chunk(chunk, out.first(chunk_bytes(k)));
        out = out.subspan(chunk_bytes(k));
    }
    return bytes;
}

Ok TopK::decode(ByteView encoded, std::span<float> out) const {
    std::fill(out.begin(), out.end(), 0.0f);
    return for_each_chunk(*this, encoded, out.size(), [&](std::size_t first, const Chunk& chunk) {
        for (std::size_t i = 0; i < chunk.kept; ++i) out[first + chunk.places[i]] = chunk.value(i);
    });
}

Ok TopK::decode_accumulate(ByteView encoded, float weight, std::span<float> sum) const {
    double largest = 0;
    DEDLOC_TRY_VOID(
        for_each_chunk(*this, encoded, sum.size(), [&](std::size_t, const Chunk& chunk) {
            largest = std::max(largest, static_cast<double>(chunk.large));
        }));
    const double product = largest * std::abs(static_cast<double>(weight));
    if (!std::isfinite(weight) || product > static_cast<double>(accumulated_magnitude_max))
        return make_error(ErrorKind::bad_input,
                          "top-k numbers as large as {:g} (weight {:g}) fit no sum",
                          largest,
                          weight);
    const FloatEnvironmentGuard guard;
    return for_each_chunk(*this, encoded, sum.size(), [&](std::size_t first, const Chunk& chunk) {
        for (std::size_t i = 0; i < chunk.kept; ++i) {
            const float value = weight * chunk.value(i);
            float& target = sum[first + chunk.places[i]];
            target = target + value;
        }
    });
}

}  // namespace dedloc::codec
