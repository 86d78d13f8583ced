#include "dedloc/codec/topk.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "dedloc/base/float_environment.h"
#include "dedloc/codec/codec.h"
#include "dedloc/tensor/kernels.h"

namespace dedloc::codec {
namespace {

constexpr std::size_t value_bits = 2;
constexpr std::size_t sparse_kept = 64;

// How a chunk lies on the wire.
struct Shape {
    std::size_t elements = 0;
    std::size_t kept = 0;
    std::size_t low_bits = 0;  // of a place; the rest of it is in the bitmap

    // `kept`: of a whole chunk.
    static Shape of(std::size_t kept, std::size_t elements) {
        return {elements,
                (kept * elements + topk_chunk - 1) / topk_chunk,
                static_cast<std::size_t>(std::bit_width(topk_chunk / kept)) - 1};
    }
    std::size_t lows_bytes() const { return (low_bits * kept + 7) / 8; }
    std::size_t bitmap_bits() const { return kept + ((elements - 1) >> low_bits); }
    std::size_t bitmap_bytes() const { return (bitmap_bits() + 7) / 8; }
    std::size_t bytes() const {
        return 8 + lows_bytes() + bitmap_bytes() + (value_bits * kept + 7) / 8;
    }
};

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

void write_chunk(const Shape& shape, const Chunk& chunk, std::span<std::uint8_t> out) {
    std::fill(out.begin(), out.end(), std::uint8_t{0});
    std::memcpy(out.data(), &chunk.small, 4);
    std::memcpy(out.data() + 4, &chunk.large, 4);
    const std::span<std::uint8_t> lows = out.subspan(8);
    const std::span<std::uint8_t> bitmap = lows.subspan(shape.lows_bytes());
    const std::span<std::uint8_t> codes = bitmap.subspan(shape.bitmap_bytes());
    for (std::size_t i = 0; i < chunk.kept; ++i) {
        const std::size_t place = chunk.places[i];
        write_bits(lows, shape.low_bits * i, static_cast<std::uint32_t>(place), shape.low_bits);
        write_bits(bitmap, (place >> shape.low_bits) + i, 1, 1);
        write_bits(codes, value_bits * i, chunk.codes[i], value_bits);
    }
}

// False if there is not one bit for each place.
bool read_places(const Shape& shape, ByteView in, Chunk& chunk) {
    chunk.kept = shape.kept;
    const ByteView lows = in.subspan(8);
    const ByteView bitmap = lows.subspan(shape.lows_bytes());
    const ByteView codes = bitmap.subspan(shape.bitmap_bytes());
    std::size_t found = 0;
    for (std::size_t byte = 0; byte < shape.bitmap_bytes(); ++byte) {
        for (unsigned bits = bitmap[byte]; bits != 0; bits &= bits - 1) {
            if (found == shape.kept) return false;
            const std::size_t high = 8 * byte + static_cast<std::size_t>(std::countr_zero(bits));
            const std::uint32_t low = read_bits(lows, shape.low_bits * found, shape.low_bits);
            chunk.places[found] =
                static_cast<std::uint16_t>(((high - found) << shape.low_bits) | low);
            chunk.codes[found] =
                static_cast<std::uint8_t>(read_bits(codes, value_bits * found, value_bits));
            ++found;
        }
    }
    return found == shape.kept;
}

// Encodes finite values; moves `out` on.
void encode_chunk(std::span<const float> values, const Shape& shape, std::span<std::uint8_t>& out) {
    Chunk chunk;
    select(values, shape.kept, chunk);
    quantize(values, chunk);
    write_chunk(shape, chunk, out.first(shape.bytes()));
    out = out.subspan(shape.bytes());
}

// Infinity in place of the first numbers: whoever reads them sees it.
void encode_infinite_chunk(const Shape& shape, std::span<std::uint8_t>& out) {
    Chunk chunk;
    chunk.small = chunk.large = std::numeric_limits<float>::infinity();
    chunk.kept = shape.kept;
    for (std::size_t i = 0; i < shape.kept; ++i) chunk.places[i] = static_cast<std::uint16_t>(i);
    std::fill_n(chunk.codes.begin(), shape.kept, std::uint8_t{0});
    write_chunk(shape, chunk, out.first(shape.bytes()));
    out = out.subspan(shape.bytes());
}

// False if encode cannot have written these bytes.
bool read_chunk(const Shape& shape, ByteView in, Chunk& chunk) {
    std::memcpy(&chunk.small, in.data(), 4);
    std::memcpy(&chunk.large, in.data() + 4, 4);
    if (!read_places(shape, in, chunk)) {
        chunk.kept = 0;  // the same nothing for everybody
        return false;
    }
    if (!std::isfinite(chunk.large) || !(chunk.small >= 0) || !(chunk.small <= chunk.large))
        return false;
    for (std::size_t i = 0; i < shape.kept; ++i)
        if (chunk.places[i] >= shape.elements || (i > 0 && chunk.places[i] <= chunk.places[i - 1]))
            return false;
    return true;
}

// Reads the chunk in front, and returns its bytes; 0: it makes no sense. The last one may be
// shorter: how many it keeps follows from its bytes, and where several would be as long, from the
// bits of its bitmap.
std::size_t read_front(ByteView encoded, Chunk& chunk) {
    for (std::size_t kept = sparse_kept; kept > 0; --kept) {
        const Shape shape = Shape::of(sparse_kept, kept * (topk_chunk / sparse_kept));
        const bool fits =
            kept == sparse_kept ? shape.bytes() <= encoded.size() : shape.bytes() == encoded.size();
        if (!fits) continue;
        if (read_chunk(shape, encoded.first(shape.bytes()), chunk)) return shape.bytes();
        if (shape.bytes() < encoded.size()) return 0;
    }
    return 0;
}

// Calls body(element, value) for every number in bytes of the right length. Numbers of a chunk that
// makes no sense are shown as far as they have places, infinite ones among them.
template <typename Body>
void for_each_sparse_number(ByteView encoded, std::size_t elements_count, const Body& body) {
    DEDLOC_CHECK(encoded.size() == sparse_size(elements_count));
    Chunk chunk;
    for (std::size_t first = 0; first < elements_count; first += topk_chunk) {
        const std::size_t count = std::min(topk_chunk, elements_count - first);
        const Shape shape = Shape::of(sparse_kept, count);
        (void)read_chunk(shape, encoded.first(shape.bytes()), chunk);
        for (std::size_t i = 0; i < chunk.kept; ++i)
            if (chunk.places[i] < count) body(first + chunk.places[i], chunk.value(i));
        encoded = encoded.subspan(shape.bytes());
    }
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
        const Shape shape = Shape::of(codec.kept, count);
        if (!read_chunk(shape, encoded.first(shape.bytes()), chunk))
            return make_error(
                ErrorKind::bad_input, "the top-k chunk at element {} makes no sense", first);
        body(first, chunk);
        encoded = encoded.subspan(shape.bytes());
    }
    return {};
}

}  // namespace

std::size_t TopK::encoded_size(std::size_t elements_count) const {
    DEDLOC_CHECK(kept >= 1 && kept <= topk_chunk, "top-{}", kept);
    const std::size_t rest = elements_count % topk_chunk;
    const std::size_t last = rest == 0 ? 0 : Shape::of(kept, rest).bytes();
    return elements_count / topk_chunk * Shape::of(kept, topk_chunk).bytes() + last;
}

Result<Bytes> TopK::encode(std::span<const float> values) const {
    if (!tensor::all_finite(values))
        return make_error(ErrorKind::bad_input, "numbers that are not finite have no top-k");
    const FloatEnvironmentGuard guard;
    Bytes bytes(encoded_size(values.size()));
    std::span<std::uint8_t> out(bytes);
    for (std::size_t first = 0; first < values.size(); first += topk_chunk) {
        const std::size_t count = std::min(topk_chunk, values.size() - first);
        encode_chunk(values.subspan(first, count), Shape::of(kept, count), out);
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

std::size_t sparse_size(std::size_t elements_count) {
    return TopK{sparse_kept}.encoded_size(elements_count);
}

void sparse_from_floats(std::span<const float> values, std::span<std::uint8_t> out, float factor) {
    const FloatEnvironmentGuard guard;
    std::array<float, topk_chunk> memory;
    for (std::size_t first = 0; first < values.size(); first += topk_chunk) {
        const std::size_t count = std::min(topk_chunk, values.size() - first);
        const std::span<float> scaled = std::span(memory).first(count);
        for (std::size_t i = 0; i < count; ++i) scaled[i] = values[first + i] * factor;
        const Shape shape = Shape::of(sparse_kept, count);
        if (tensor::all_finite(scaled))
            encode_chunk(scaled, shape, out);
        else
            encode_infinite_chunk(shape, out);
    }
}

void floats_from_sparse(ByteView encoded, std::span<float> out) {
    std::fill(out.begin(), out.end(), 0.0f);
    for_each_sparse_number(
        encoded, out.size(), [&](std::size_t element, float value) { out[element] = value; });
}

void add_weighted_sparse(std::span<float> accumulator, ByteView encoded, float weight) {
    const FloatEnvironmentGuard guard;
    for_each_sparse_number(encoded, accumulator.size(), [&](std::size_t element, float value) {
        const float weighted = weight * value;
        accumulator[element] = accumulator[element] + weighted;
    });
}

float largest_magnitude_of_sparse(ByteView encoded) {
    float largest = 0;
    while (!encoded.empty()) {
        Chunk chunk;
        const std::size_t bytes = read_front(encoded, chunk);
        if (bytes == 0) return std::numeric_limits<float>::infinity();
        largest = std::max(largest, chunk.large);
        encoded = encoded.subspan(bytes);
    }
    return largest;
}

}  // namespace dedloc::codec
