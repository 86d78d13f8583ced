#include "dedloc/codec/topk.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "dedloc/base/float_environment.h"
#include "dedloc/codec/codec.h"
#include "dedloc/tensor/kernels.h"
#include "dedloc/tensor/largest.h"

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

// Writes one string of bits after the other, n ≤ 12 at a time.
class BitWriter {
  public:
    explicit BitWriter(std::uint8_t* out) : out_(out) {}
    void write(std::uint32_t value, std::size_t n) {
        word_ |= std::uint64_t{value & ((1u << n) - 1)} << bits_;
        bits_ += n;
        while (bits_ >= 8) take_byte();
    }
    void finish() {
        if (bits_ > 0) take_byte();
    }

  private:
    void take_byte() {
        *out_++ = static_cast<std::uint8_t>(word_);
        word_ >>= 8;
        bits_ = bits_ > 8 ? bits_ - 8 : 0;
    }

    std::uint8_t* out_;
    std::uint64_t word_ = 0;
    std::size_t bits_ = 0;
};

void set_bit(std::span<std::uint8_t> bits, std::size_t at) {
    bits[at / 8] |= static_cast<std::uint8_t>(1u << (at % 8));
}

// Reads bits [at, at + n) of a string, n ≤ 12.
std::uint32_t read_bits(ByteView in, std::size_t at, std::size_t n) {
    std::uint32_t bits = 0;
    const ByteView from = in.subspan(at / 8);
    if (from.size() >= sizeof(bits))
        std::memcpy(&bits, from.data(), sizeof(bits));
    else
        for (std::size_t i = 0; i < from.size(); ++i) bits |= std::uint32_t{from[i]} << (8 * i);
    return (bits >> (at % 8)) & ((1u << n) - 1);
}

// One chunk, as it is on the wire.
struct Chunk {
    float small = 0;
    float large = 0;
    std::size_t kept = 0;
    std::array<std::uint16_t, topk_chunk> places;
    std::array<std::uint8_t, topk_chunk> codes;

    std::array<float, 4> values() const { return {small, -small, large, -large}; }  // by code
};

std::uint32_t magnitude_bits(float value) {
    return std::bit_cast<std::uint32_t>(value) & 0x7fffffffu;
}

// Sets the places of the `kept` largest magnitudes, ascending. Of a whole chunk few are looked at
// one by one. False: a number is not finite.
bool select(std::span<const float> values, std::size_t kept, Chunk& chunk) {
    std::uint32_t bound = 0;
    if (values.size() == topk_chunk && kept <= tensor::magnitude_columns) {
        const tensor::LargestBound found = tensor::bound_of_largest(values, kept);
        if (found.largest >= tensor::infinite_magnitude) return false;
        bound = found.bound;
    } else if (!tensor::all_finite(values)) {
        return false;
    }
    const std::size_t count = tensor::places_not_below(values, bound, chunk.places);
    chunk.kept = kept;
    if (count == kept) return true;
    std::array<std::uint32_t, topk_chunk> magnitudes;
    for (std::size_t i = 0; i < count; ++i) magnitudes[i] = magnitude_bits(values[chunk.places[i]]);
    const auto last = magnitudes.begin() + static_cast<std::ptrdiff_t>(kept) - 1;
    std::nth_element(magnitudes.begin(),
                     last,
                     magnitudes.begin() + static_cast<std::ptrdiff_t>(count),
                     std::greater<>());
    const std::uint32_t threshold = *last;
    // All above the threshold, and of those equal to it the first.
    auto equal_left = static_cast<std::size_t>(std::count(magnitudes.begin(), last + 1, threshold));
    std::size_t found = 0;
    for (std::size_t i = 0; i < count; ++i) {  // no jumps, as nobody could guess them
        const std::uint16_t place = chunk.places[i];
        const std::uint32_t bits = magnitude_bits(values[place]);
        const bool takes_equal = bits == threshold && equal_left != 0;
        chunk.places[found] = place;
        found += bits > threshold || takes_equal ? 1 : 0;
        equal_left -= takes_equal ? 1 : 0;
    }
    return true;
}

// Two-means clustering of the kept magnitudes: at most six rounds from their mean.
void quantize(std::span<const float> values, Chunk& chunk) {
    std::array<double, topk_chunk> magnitudes;
    double border = 0;
    for (std::size_t i = 0; i < chunk.kept; ++i) {
        magnitudes[i] = static_cast<double>(std::abs(values[chunk.places[i]]));
        border += magnitudes[i];
    }
    border /= static_cast<double>(chunk.kept);
    double means[2] = {};
    for (int round = 0; round < 6; ++round) {
        // No jumps: positive numbers are in order as their bits are, and adding 0 changes no sum.
        const auto border_bits = std::bit_cast<std::uint64_t>(border);
        double sums[2] = {};
        std::size_t larges = 0;
        for (std::size_t i = 0; i < chunk.kept; ++i) {
            const auto bits = std::bit_cast<std::uint64_t>(magnitudes[i]);
            const std::uint64_t if_large = std::uint64_t{0} - (bits > border_bits ? 1 : 0);
            sums[0] += std::bit_cast<double>(bits & ~if_large);
            sums[1] += std::bit_cast<double>(bits & if_large);
            larges += if_large & 1;
        }
        const std::size_t counts[2] = {chunk.kept - larges, larges};
        // Rounding may lift a mean of equal numbers above them: then one half is empty.
        for (std::size_t half = 0; half < 2; ++half)
            means[half] = counts[half] == 0 ? sums[1 - half] / static_cast<double>(counts[1 - half])
                                            : sums[half] / static_cast<double>(counts[half]);
        const double before = std::exchange(border, (means[0] + means[1]) / 2);
        if (border == before) break;
    }
    chunk.small = static_cast<float>(means[0]);
    chunk.large = static_cast<float>(means[1]);
    for (std::size_t i = 0; i < chunk.kept; ++i) {
        const auto negative = std::bit_cast<std::uint32_t>(values[chunk.places[i]]) >> 31;
        const unsigned large = magnitudes[i] > border ? 2 : 0;
        chunk.codes[i] = static_cast<std::uint8_t>(negative | large);
    }
}

void write_chunk(const Shape& shape, const Chunk& chunk, std::span<std::uint8_t> out) {
    std::memcpy(out.data(), &chunk.small, 4);
    std::memcpy(out.data() + 4, &chunk.large, 4);
    const std::span<std::uint8_t> lows = out.subspan(8);
    const std::span<std::uint8_t> bitmap =
        lows.subspan(shape.lows_bytes()).first(shape.bitmap_bytes());
    std::ranges::fill(bitmap, std::uint8_t{0});
    BitWriter low(lows.data());
    BitWriter code(bitmap.data() + bitmap.size());
    for (std::size_t i = 0; i < chunk.kept; ++i) {
        low.write(chunk.places[i], shape.low_bits);
        set_bit(bitmap, (chunk.places[i] >> shape.low_bits) + i);
        code.write(chunk.codes[i], value_bits);
    }
    low.finish();
    code.finish();
}

// False if there is not one bit for each place.
bool read_places(const Shape& shape, ByteView in, Chunk& chunk) {
    chunk.kept = shape.kept;
    const ByteView lows = in.subspan(8);
    const ByteView bitmap = lows.subspan(shape.lows_bytes());
    const ByteView codes = bitmap.subspan(shape.bitmap_bytes());
    std::size_t found = 0;
    for (std::size_t byte = 0; byte < shape.bitmap_bytes(); byte += 8) {
        std::uint64_t bits = 0;
        const std::size_t size = std::min<std::size_t>(8, shape.bitmap_bytes() - byte);
        std::memcpy(&bits, bitmap.data() + byte, size);
        for (; bits != 0; bits &= bits - 1) {
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

// Infinity in place of the first numbers: whoever reads them sees it.
void make_infinite(const Shape& shape, Chunk& chunk) {
    chunk.small = chunk.large = std::numeric_limits<float>::infinity();
    chunk.kept = shape.kept;
    for (std::size_t i = 0; i < shape.kept; ++i) chunk.places[i] = static_cast<std::uint16_t>(i);
    std::fill_n(chunk.codes.begin(), shape.kept, std::uint8_t{0});
}

// Moves `out` on.
void encode_chunk(std::span<const float> values, const Shape& shape, std::span<std::uint8_t>& out) {
    Chunk chunk;
    if (select(values, shape.kept, chunk))
        quantize(values, chunk);
    else
        make_infinite(shape, chunk);
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
    bool ascend = chunk.places[shape.kept - 1] < shape.elements;
    for (std::size_t i = 1; i < shape.kept; ++i) ascend &= chunk.places[i - 1] < chunk.places[i];
    return ascend;
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
        const std::array<float, 4> values = chunk.values();
        for (std::size_t i = 0; i < chunk.kept; ++i)
            if (chunk.places[i] < count) body(first + chunk.places[i], values[chunk.codes[i]]);
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
        const std::array<float, 4> values = chunk.values();
        for (std::size_t i = 0; i < chunk.kept; ++i)
            out[first + chunk.places[i]] = values[chunk.codes[i]];
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
        const std::array<float, 4> values = chunk.values();
        for (std::size_t i = 0; i < chunk.kept; ++i) {
            const float value = weight * values[chunk.codes[i]];
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
        std::span<const float> scaled = values.subspan(first, count);
        if (factor != 1.0f) {
            std::ranges::copy(scaled, memory.begin());
            tensor::scale(std::span(memory).first(count), factor);
            scaled = std::span(memory).first(count);
        }
        encode_chunk(scaled, Shape::of(sparse_kept, count), out);
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
