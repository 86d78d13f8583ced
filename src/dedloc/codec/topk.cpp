#include "dedloc/codec/topk.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <vector>

#include "dedloc/base/float_environment.h"
#include "dedloc/codec/codec.h"
#include "dedloc/tensor/kernels.h"
#include "dedloc/tensor/largest.h"
#include "dedloc/tensor/two_means.h"

namespace dedloc::codec {
namespace {

constexpr std::size_t value_bits = 2;

// How a chunk lies on the wire.
struct Shape {
    std::size_t elements = 0;
    std::size_t kept = 0;
    std::size_t low_bits = 0;  // of a place; the rest of it is in the bitmap

    // `kept`: of a whole chunk.
    static constexpr Shape of(std::size_t kept, std::size_t elements) {
        return {elements,
                (kept * elements + topk_chunk - 1) / topk_chunk,
                static_cast<std::size_t>(std::bit_width(topk_chunk / kept)) - 1};
    }
    constexpr std::size_t lows_bytes() const { return (low_bits * kept + 7) / 8; }
    constexpr std::size_t bitmap_bits() const { return kept + ((elements - 1) >> low_bits); }
    constexpr std::size_t bitmap_bytes() const { return (bitmap_bits() + 7) / 8; }
    constexpr std::size_t bytes() const {
        return 8 + lows_bytes() + bitmap_bytes() + (value_bits * kept + 7) / 8;
    }
    // Is it that of nearly all chunks of the codec "sparse"?
    constexpr bool is_usual() const { return elements == topk_chunk && kept == sparse_kept; }
};

// The usual chunk, of which four places and four codes fill whole bytes.
constexpr Shape usual_shape = Shape::of(sparse_kept, topk_chunk);
static_assert(usual_shape.low_bits == 6 && usual_shape.bitmap_bytes() == 16 && value_bits == 2);
static_assert(std::endian::native == std::endian::little, "wire order is memory order here");

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
    std::uint32_t least = 0;  // no kept magnitude is below that
    std::array<std::uint16_t, topk_chunk> places;
    std::array<std::uint8_t, topk_chunk> codes;

    std::array<float, 4> values() const { return {small, -small, large, -large}; }  // by code
};

std::uint32_t magnitude_bits(float value) {
    return std::bit_cast<std::uint32_t>(value) & 0x7fffffffu;
}

// A magnitude that a few more numbers of a chunk reach than are kept of it, guessed from the chunk
// before on this thread. A wrong guess costs two passes, and changes nothing.
thread_local std::uint32_t guessed_magnitude = 0;
constexpr float guess_below = 0.95f;  // of 4,096 normal numbers some 90 reach it, and 64 are kept

// The places that may be kept: at least as many. Nothing: a number is not finite.
std::optional<std::size_t> candidates(std::span<const float> values,
                                      std::size_t kept,
                                      std::span<std::uint16_t> places) {
    if (values.size() != topk_chunk || kept > tensor::magnitude_columns) {
        if (!tensor::all_finite(values)) return std::nullopt;
        return tensor::places_not_below(values, 0, places);
    }
    if (guessed_magnitude > 0) {
        const std::size_t found = tensor::places_not_below(values, guessed_magnitude, places);
        if (found >= kept) {
            const auto is_finite = [values](std::uint16_t place) {
                return magnitude_bits(values[place]) < tensor::infinite_magnitude;
            };
            if (!std::ranges::all_of(places.first(found), is_finite)) return std::nullopt;
            return found;
        }
    }
    const tensor::LargestBound bound = tensor::bound_of_largest(values, kept);
    if (bound.largest >= tensor::infinite_magnitude) return std::nullopt;
    return tensor::places_not_below(values, bound.bound, places);
}

// Sets the places of the `kept` largest magnitudes, ascending. Of a whole chunk few are looked at
// one by one. False: a number is not finite.
bool select(std::span<const float> values, std::size_t kept, Chunk& chunk) {
    const auto count = candidates(values, kept, chunk.places);
    if (!count) return false;
    chunk.kept = kept;
    chunk.least = tensor::keep_largest(values, std::span(chunk.places).first(*count), kept);
    if (values.size() == topk_chunk && kept <= tensor::magnitude_columns)
        guessed_magnitude = magnitude_bits(std::bit_cast<float>(chunk.least) * guess_below);
    return true;
}

void quantize(std::span<const float> values, Chunk& chunk) {
    std::array<float, topk_chunk> memory;
    const std::span<float> magnitudes = std::span(memory).first(chunk.kept);
    for (std::size_t i = 0; i < chunk.kept; ++i) magnitudes[i] = std::abs(values[chunk.places[i]]);
    const tensor::TwoMeans halves = tensor::two_means(magnitudes);
    chunk.small = static_cast<float>(halves.small);
    chunk.large = static_cast<float>(halves.large);
    for (std::size_t i = 0; i < chunk.kept; ++i) {
        const auto negative = std::bit_cast<std::uint32_t>(values[chunk.places[i]]) >> 31;
        const unsigned large = static_cast<double>(magnitudes[i]) > halves.border ? 2 : 0;
        chunk.codes[i] = static_cast<std::uint8_t>(negative | large);
    }
}

// Writes what follows the two magnitudes of a usual chunk.
void write_usual_places(const Chunk& chunk, std::uint8_t* out) {
    const std::uint16_t* place = chunk.places.data();
    const std::uint8_t* code = chunk.codes.data();
    std::uint8_t* const bitmap = out + usual_shape.lows_bytes();
    std::uint8_t* const codes = bitmap + usual_shape.bitmap_bytes();
    std::uint64_t words[2] = {};
    for (std::size_t i = 0; i < sparse_kept; i += 4, place += 4, code += 4) {
        std::uint32_t lows = 0;
        unsigned four = 0;
        for (std::size_t k = 0; k < 4; ++k) {
            lows |= (std::uint32_t{place[k]} & 63u) << (6 * k);
            four |= unsigned{code[k]} << (2 * k);
            const std::size_t bit = (place[k] >> 6) + i + k;
            words[bit / 64] |= std::uint64_t{1} << (bit % 64);
        }
        std::memcpy(out + i / 4 * 3, &lows, 3);
        codes[i / 4] = static_cast<std::uint8_t>(four);
    }
    std::memcpy(bitmap, words, sizeof(words));
}

void write_chunk(const Shape& shape, const Chunk& chunk, std::span<std::uint8_t> out) {
    std::memcpy(out.data(), &chunk.small, 4);
    std::memcpy(out.data() + 4, &chunk.large, 4);
    if (shape.is_usual()) return write_usual_places(chunk, out.data() + 8);
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

// The places of the bits that are set in each byte, one in a byte of the number.
constexpr std::array<std::uint64_t, 256> places_in_bytes = [] {
    std::array<std::uint64_t, 256> of_bytes{};
    for (std::size_t byte = 0; byte < 256; ++byte) {
        int found = 0;
        for (std::uint64_t bit = 0; bit < 8; ++bit)
            if ((byte >> bit & 1) != 0) of_bytes[byte] |= bit << (8 * found++);
    }
    return of_bytes;
}();

constexpr std::array<std::uint8_t, 256> bits_in_bytes = [] {
    std::array<std::uint8_t, 256> of_bytes{};
    for (std::size_t byte = 0; byte < 256; ++byte)
        of_bytes[byte] = static_cast<std::uint8_t>(std::popcount(byte));
    return of_bytes;
}();

// Eight strings of 6 bits, and of 2, each in a byte.
std::uint64_t spread_sixes(std::uint64_t bits) {
    bits = (bits & 0x0000000000ffffff) | (bits & 0x0000ffffff000000) << 8;
    bits = (bits & 0x00000fff00000fff) | (bits & 0x00fff00000fff000) << 4;
    return (bits & 0x003f003f003f003f) | (bits & 0x0fc00fc00fc00fc0) << 2;
}

std::uint64_t spread_pairs(std::uint64_t bits) {
    bits = (bits | bits << 24) & 0x000000ff000000ff;
    bits = (bits | bits << 12) & 0x000f000f000f000f;
    return (bits | bits << 6) & 0x0303030303030303;
}

// False if there is not one bit for each place.
bool read_usual_places(const std::uint8_t* in, Chunk& chunk) {
    const std::uint8_t* const bitmap = in + usual_shape.lows_bytes();
    const std::uint8_t* const codes = bitmap + usual_shape.bitmap_bytes();
    std::array<std::uint8_t, sparse_kept + 8> bits{};  // of the bitmap: their places
    std::array<std::uint8_t, sparse_kept> lows;
    std::size_t found = 0;
    for (std::size_t byte = 0; byte < usual_shape.bitmap_bytes(); ++byte) {
        const std::uint64_t eight = places_in_bytes[bitmap[byte]] + 8 * byte * 0x0101010101010101;
        std::memcpy(bits.data() + found, &eight, 8);
        found += bits_in_bytes[bitmap[byte]];
        if (found > sparse_kept) return false;
    }
    for (std::size_t i = 0; i < sparse_kept; i += 8) {
        std::uint64_t word = 0;
        std::memcpy(&word, in + i / 8 * 6, 6);
        word = spread_sixes(word);
        std::memcpy(lows.data() + i, &word, 8);
        std::uint16_t pairs = 0;
        std::memcpy(&pairs, codes + i / 4, 2);
        word = spread_pairs(pairs);
        std::memcpy(chunk.codes.data() + i, &word, 8);
    }
    for (std::uint16_t i = 0; i < sparse_kept; ++i) {
        const auto high = static_cast<std::uint16_t>(bits[i] - i);
        chunk.places[i] = static_cast<std::uint16_t>((high << 6) | lows[i]);
    }
    return found == sparse_kept;
}

// Likewise.
bool read_places(const Shape& shape, ByteView in, Chunk& chunk) {
    chunk.kept = shape.kept;
    if (shape.is_usual()) return read_usual_places(in.data() + 8, chunk);
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

// Multiplying the chunk's numbers by a power of two first would give the same places and codes, and
// its magnitudes times that: nothing that is kept, or would have been, leaves the normal numbers.
bool is_scaled_exactly(const Chunk& chunk, float factor) {
    constexpr float least = 2 * std::numeric_limits<float>::min();
    int exponent = 0;
    return std::frexp(factor, &exponent) == 0.5f && factor <= 1.0f &&
           std::bit_cast<float>(chunk.least) * factor >= least;
}

// Moves `out` on. False, and does not, where another factor than 1 must be multiplied with first.
bool encode_chunk(std::span<const float> values,
                  const Shape& shape,
                  std::span<std::uint8_t>& out,
                  float factor = 1.0f) {
    Chunk chunk;
    if (select(values, shape.kept, chunk)) {
        if (factor != 1.0f && !is_scaled_exactly(chunk, factor)) return false;
        quantize(values, chunk);
        chunk.small *= factor;
        chunk.large *= factor;
    } else {
        make_infinite(shape, chunk);
    }
    write_chunk(shape, chunk, out.first(shape.bytes()));
    out = out.subspan(shape.bytes());
    return true;
}

// False, and no numbers, if there is not one bit for each place.
bool read_numbers(const Shape& shape, ByteView in, Chunk& chunk) {
    std::memcpy(&chunk.small, in.data(), 4);
    std::memcpy(&chunk.large, in.data() + 4, 4);
    if (read_places(shape, in, chunk)) return true;
    chunk.kept = 0;  // the same nothing for everybody
    return false;
}

// False if encode cannot have written these bytes.
bool read_chunk(const Shape& shape, ByteView in, Chunk& chunk) {
    if (!read_numbers(shape, in, chunk)) return false;
    if (!std::isfinite(chunk.large) || !(chunk.small >= 0) || !(chunk.small <= chunk.large))
        return false;
    bool ascend = chunk.places[shape.kept - 1] < shape.elements;
    for (std::size_t i = 1; i < shape.kept; ++i) ascend &= chunk.places[i - 1] < chunk.places[i];
    return ascend;
}

// Reads the chunk in front, and returns its bytes; 0: it makes no sense. The last one may be
// shorter: how many it keeps follows from its bytes, and where several would be as long, from the
// bits of its bitmap.
std::size_t read_front(std::size_t kept_of_whole, ByteView encoded, Chunk& chunk) {
    for (std::size_t kept = kept_of_whole; kept > 0; --kept) {
        const Shape shape = Shape::of(kept_of_whole, kept * (topk_chunk / kept_of_whole));
        const bool fits = kept == kept_of_whole ? shape.bytes() <= encoded.size()
                                                : shape.bytes() == encoded.size();
        if (!fits) continue;
        if (read_chunk(shape, encoded.first(shape.bytes()), chunk)) return shape.bytes();
        if (shape.bytes() < encoded.size()) return 0;
    }
    return 0;
}

// Calls body(element, weight × value) for every number in bytes of the right length; with a weight
// of 1 values stay as they are. Numbers of a chunk that makes no sense are shown as far as they
// have places, infinite ones among them.
template <std::size_t kept, typename Body>
void for_each_sparse_number(ByteView encoded,
                            std::size_t elements_count,
                            float weight,
                            const Body& body) {
    DEDLOC_CHECK(encoded.size() == sparse_size<kept>(elements_count));
    Chunk chunk;
    for (std::size_t first = 0; first < elements_count; first += topk_chunk) {
        const std::size_t count = std::min(topk_chunk, elements_count - first);
        const Shape shape = Shape::of(kept, count);
        (void)read_numbers(shape, encoded.first(shape.bytes()), chunk);
        std::array<float, 4> values = chunk.values();
        if (weight != 1.0f)
            for (float& value : values) value = weight * value;
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
        (void)encode_chunk(values.subspan(first, count), Shape::of(kept, count), out);
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

template <std::size_t kept>
std::size_t sparse_size(std::size_t elements_count) {
    return TopK{kept}.encoded_size(elements_count);
}

template <std::size_t kept>
void sparse_from_floats(std::span<const float> values, std::span<std::uint8_t> out, float factor) {
    const FloatEnvironmentGuard guard;
    for (std::size_t first = 0; first < values.size(); first += topk_chunk) {
        const std::size_t count = std::min(topk_chunk, values.size() - first);
        const std::span<const float> chunk = values.subspan(first, count);
        const Shape shape = Shape::of(kept, count);
        if (encode_chunk(chunk, shape, out, factor)) continue;
        std::array<float, topk_chunk> memory;
        const std::span<float> scaled = std::span(memory).first(count);
        std::ranges::copy(chunk, scaled.begin());
        tensor::scale(scaled, factor);
        (void)encode_chunk(scaled, shape, out);
    }
}

template <std::size_t kept>
void floats_from_sparse(ByteView encoded, std::span<float> out) {
    std::fill(out.begin(), out.end(), 0.0f);
    for_each_sparse_number<kept>(
        encoded, out.size(), 1.0f, [&](std::size_t element, float value) { out[element] = value; });
}

template <std::size_t kept>
void add_weighted_sparse(std::span<float> accumulator, ByteView encoded, float weight) {
    const FloatEnvironmentGuard guard;
    for_each_sparse_number<kept>(
        encoded, accumulator.size(), weight, [&](std::size_t element, float weighted) {
            accumulator[element] += weighted;
        });
}

void add_weighted_sparse(std::span<float> accumulator,
                         ByteView encoded,
                         float weight,
                         std::span<std::uint64_t> named) {
    DEDLOC_CHECK(named.size() * 64 >= accumulator.size(), "{} words", named.size());
    const FloatEnvironmentGuard guard;
    for_each_sparse_number<sparse_kept>(
        encoded, accumulator.size(), weight, [&](std::size_t element, float weighted) {
            accumulator[element] += weighted;
            named[element / 64] |= std::uint64_t{1} << (element % 64);
        });
}

double sum_of_squares_sparse(ByteView encoded, std::size_t elements_count, float weight) {
    const FloatEnvironmentGuard guard;
    double squares = 0;
    for_each_sparse_number<sparse_kept>(
        encoded, elements_count, weight, [&](std::size_t, float weighted) {
            squares += static_cast<double>(weighted) * static_cast<double>(weighted);
        });
    return squares;
}

namespace {

// Returns whether the elements that have a bit are finite after it.
template <typename Change>
bool change_named(std::span<float> x, std::span<const std::uint64_t> named, const Change& change) {
    bool finite = true;
    for (std::size_t word = 0; word < named.size(); ++word)
        for (std::uint64_t bits = named[word]; bits != 0; bits &= bits - 1) {
            float& each = x[64 * word + static_cast<std::size_t>(std::countr_zero(bits))];
            each = change(each);
            finite &= magnitude_bits(each) < tensor::infinite_magnitude;
        }
    return finite;
}

}  // namespace

bool divide_named(std::span<float> x, std::span<const std::uint64_t> named, float divisor) {
    const FloatEnvironmentGuard guard;
    int exponent = 0;
    // Dividing by a power of two is multiplying by its inverse, to the last bit, and takes longer.
    if (std::frexp(divisor, &exponent) == 0.5f)
        return change_named(
            x, named, [inverse = 1.0f / divisor](float each) { return each * inverse; });
    return change_named(x, named, [divisor](float each) { return each / divisor; });
}

template <std::size_t kept>
float largest_magnitude_of_sparse(ByteView encoded) {
    float largest = 0;
    while (!encoded.empty()) {
        Chunk chunk;
        const std::size_t bytes = read_front(kept, encoded, chunk);
        if (bytes == 0) return std::numeric_limits<float>::infinity();
        largest = std::max(largest, chunk.large);
        encoded = encoded.subspan(bytes);
    }
    return largest;
}

template std::size_t sparse_size<sparse_kept>(std::size_t);
template void sparse_from_floats<sparse_kept>(std::span<const float>,
                                              std::span<std::uint8_t>,
                                              float);
template void floats_from_sparse<sparse_kept>(ByteView, std::span<float>);
template void add_weighted_sparse<sparse_kept>(std::span<float>, ByteView, float);
template float largest_magnitude_of_sparse<sparse_kept>(ByteView);

template std::size_t sparse_size<sparse_sum_kept>(std::size_t);
template void sparse_from_floats<sparse_sum_kept>(std::span<const float>,
                                                  std::span<std::uint8_t>,
                                                  float);
template void floats_from_sparse<sparse_sum_kept>(ByteView, std::span<float>);
template void add_weighted_sparse<sparse_sum_kept>(std::span<float>, ByteView, float);
template float largest_magnitude_of_sparse<sparse_sum_kept>(ByteView);

}  // namespace dedloc::codec
