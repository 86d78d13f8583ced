#include "dedloc/codec/low_rank.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>

#include "dedloc/base/check.h"
#include "dedloc/base/float_environment.h"
#include "dedloc/base/random.h"
#include "dedloc/codec/power_sgd.h"
#include "dedloc/tensor/kernels.h"

namespace dedloc::codec {
namespace {

constexpr int power_steps = 2;
constexpr float level_max = 7;
// An s is at most this, so that four products of 8 × 8 of them stay finite.
constexpr float scale_max = 0x1p119f;
constexpr int exponent_most = 100;  // by which a block is scaled to numbers near 1

using Vectors = std::array<float, low_rank_products * low_rank_side>;

// How a block lies as a matrix, and on the wire.
struct BlockShape {
    std::size_t rows = 0;
    std::size_t columns = 0;

    static BlockShape of(std::size_t elements) {
        std::size_t columns = 1;
        while (columns * columns < elements) ++columns;
        return {(elements + columns - 1) / columns, columns};
    }
    // Blocks of other shapes have other lengths.
    static std::optional<BlockShape> of_bytes(std::size_t bytes) {
        for (std::size_t columns = 1; columns <= low_rank_side; ++columns)
            for (const std::size_t rows : {columns - 1, columns})
                if (rows > 0 && BlockShape{rows, columns}.bytes() == bytes)
                    return BlockShape{rows, columns};
        return std::nullopt;
    }

    std::size_t products() const { return std::min(low_rank_products, rows); }
    std::size_t levels() const { return products() * (rows + columns); }
    std::size_t bytes() const { return products() * sizeof(float) + (levels() + 1) / 2; }
};

// A block as it is on the wire.
struct Factors {
    BlockShape shape;
    std::array<float, low_rank_products> scales;
    Vectors p;
    Vectors q;

    std::span<float> p_of(std::size_t k) {
        return std::span(p).subspan(k * shape.rows, shape.rows);
    }
    std::span<float> q_of(std::size_t k) {
        return std::span(q).subspan(k * shape.columns, shape.columns);
    }
    std::span<float> all_p() { return std::span(p).first(shape.products() * shape.rows); }
    std::span<float> all_q() { return std::span(q).first(shape.products() * shape.columns); }
};

float level_at(ByteView levels, std::size_t at) {
    const unsigned four_bits = (levels[at / 2] >> (4 * (at % 2))) & 15u;
    return static_cast<float>(static_cast<int>(four_bits ^ 8u) - 8);
}

void set_level(std::span<std::uint8_t> levels, std::size_t at, float level) {
    const auto four_bits = static_cast<unsigned>(static_cast<int>(level)) & 15u;
    levels[at / 2] |= static_cast<std::uint8_t>(four_bits << (4 * (at % 2)));
}

void read_factors(ByteView in, Factors& factors) {
    const std::size_t scales_bytes = factors.shape.products() * sizeof(float);
    std::memcpy(factors.scales.data(), in.data(), scales_bytes);
    const ByteView levels = in.subspan(scales_bytes);
    std::size_t at = 0;
    for (float& level : factors.all_p()) level = level_at(levels, at++);
    for (float& level : factors.all_q()) level = level_at(levels, at++);
}

void write_factors(Factors& factors, std::span<std::uint8_t> out) {
    const std::size_t scales_bytes = factors.shape.products() * sizeof(float);
    std::memcpy(out.data(), factors.scales.data(), scales_bytes);
    const std::span<std::uint8_t> levels = out.subspan(scales_bytes);
    std::ranges::fill(levels, std::uint8_t{0});
    std::size_t at = 0;
    for (const float level : factors.all_p()) set_level(levels, at++, level);
    for (const float level : factors.all_q()) set_level(levels, at++, level);
}

// The first numbers of a row of the matrix.
void expand(Factors& factors, std::size_t row, std::span<float> out) {
    std::ranges::fill(out, 0.0f);
    for (std::size_t k = 0; k < factors.shape.products(); ++k) {
        const float scaled = factors.scales[k] * factors.p_of(k)[row];
        tensor::add_weighted(out, factors.q_of(k).first(out.size()), scaled);
    }
}

// Calls body(first element, numbers) for every row in bytes of the right length.
template <typename Body>
void for_each_row(ByteView encoded, std::size_t elements_count, const Body& body) {
    DEDLOC_CHECK(encoded.size() == low_rank_size(elements_count));
    Factors factors;
    std::array<float, low_rank_side> memory;
    for (std::size_t first = 0; first < elements_count; first += low_rank_block) {
        const std::size_t count = std::min(low_rank_block, elements_count - first);
        factors.shape = BlockShape::of(count);
        read_factors(encoded.first(factors.shape.bytes()), factors);
        encoded = encoded.subspan(factors.shape.bytes());
        const std::size_t columns = factors.shape.columns;
        for (std::size_t row = 0; row < factors.shape.rows; ++row) {
            const std::size_t begin = row * columns;
            const std::span<float> numbers =
                std::span(memory).first(std::min(columns, count - begin));
            expand(factors, row, numbers);
            body(first + begin, std::span<const float>(numbers));
        }
    }
}

float largest_of(std::span<const float> numbers) {
    return tensor::largest_magnitude_of_floats(
        {reinterpret_cast<const std::uint8_t*>(numbers.data()), numbers.size_bytes()});
}

// Rounds a vector to levels and returns what one of them is worth; 0 of zeros.
float round_to_levels(std::span<float> vector) {
    const float step = largest_of(vector) / level_max;
    const float smallest = std::numeric_limits<float>::min();
    for (float& value : vector)
        value = step < smallest
                    ? 0.0f
                    : std::clamp(std::floor(value / step + 0.5f), -level_max, level_max);
    return step < smallest ? 0.0f : step;
}

// The same for every block, of every peer: nobody needs to know what came before.
const Vectors& first_vectors() {
    static const Vectors vectors = [] {
        Vectors drawn;
        Random random(1);
        for (float& value : drawn) value = static_cast<float>(random.uniform() - 0.5);
        return drawn;
    }();
    return vectors;
}

// Sets scales and levels to a matrix of numbers near 1, which is `unit` times smaller than the
// block.
void factorise(std::span<const float> matrix, float unit, Factors& factors) {
    const MatrixShape shape{factors.shape.rows, factors.shape.columns};
    const std::span<float> p = factors.all_p();
    const std::span<float> q = factors.all_q();
    std::ranges::copy(std::span(first_vectors()).first(q.size()), q.begin());
    for (int step = 0; step < power_steps; ++step) {
        if (step > 0) transposed_times(matrix, shape, p, q);
        times(matrix, shape, q, p);
        // Once more, as the first time leaves little but rounding errors of vectors alike.
        for (int turn = 0; turn < 2; ++turn) orthonormalize(p, factors.shape.products());
    }
    std::array<float, low_rank_products> lengths{};
    for (std::size_t k = 0; k < factors.shape.products(); ++k) {
        const std::span<float> vector = factors.p_of(k);
        (void)round_to_levels(vector);
        lengths[k] = static_cast<float>(tensor::sum_of_squares(vector));
    }
    transposed_times(matrix, shape, p, q);
    for (std::size_t k = 0; k < factors.shape.products(); ++k) {
        const float step = round_to_levels(factors.q_of(k));
        const float scale = lengths[k] > 0 ? step / lengths[k] * unit : 0.0f;
        factors.scales[k] = std::min(scale, scale_max);
    }
}

void make_infinite(Factors& factors) {
    factors.scales.fill(std::numeric_limits<float>::infinity());
    std::ranges::fill(factors.all_p(), 1.0f);
    std::ranges::fill(factors.all_q(), 1.0f);
}

void encode_block(std::span<const float> values, float factor, std::span<std::uint8_t> out) {
    Factors factors;
    factors.shape = BlockShape::of(values.size());
    std::array<float, low_rank_block> memory;
    const std::span<float> matrix =
        std::span(memory).first(factors.shape.rows * factors.shape.columns);
    const std::span<float> filled = matrix.first(values.size());
    std::ranges::copy(values, filled.begin());
    std::ranges::fill(matrix.subspan(values.size()), 0.0f);
    if (factor != 1.0f) tensor::scale(filled, factor);
    const float largest = largest_of(filled);
    if (!std::isfinite(largest)) {
        make_infinite(factors);
    } else {
        const int exponent =
            largest > 0 ? std::clamp(std::ilogb(largest), -exponent_most, exponent_most) : 0;
        tensor::scale(filled, std::ldexp(1.0f, -exponent));
        factorise(matrix, std::ldexp(1.0f, exponent), factors);
    }
    write_factors(factors, out);
}

}  // namespace

std::size_t low_rank_size(std::size_t elements_count) {
    const std::size_t rest = elements_count % low_rank_block;
    const std::size_t last = rest == 0 ? 0 : BlockShape::of(rest).bytes();
    return elements_count / low_rank_block * low_rank_block_bytes + last;
}

void low_rank_from_floats(std::span<const float> values,
                          std::span<std::uint8_t> out,
                          float factor) {
    const FloatEnvironmentGuard guard;
    for (std::size_t first = 0; first < values.size(); first += low_rank_block) {
        const std::size_t count = std::min(low_rank_block, values.size() - first);
        const std::size_t bytes = BlockShape::of(count).bytes();
        encode_block(values.subspan(first, count), factor, out.first(bytes));
        out = out.subspan(bytes);
    }
}

void floats_from_low_rank(ByteView encoded, std::span<float> out) {
    const FloatEnvironmentGuard guard;
    for_each_row(encoded, out.size(), [&](std::size_t first, std::span<const float> numbers) {
        std::ranges::copy(numbers, out.begin() + static_cast<std::ptrdiff_t>(first));
    });
}

void add_weighted_low_rank(std::span<float> accumulator, ByteView encoded, float weight) {
    const FloatEnvironmentGuard guard;
    for_each_row(
        encoded, accumulator.size(), [&](std::size_t first, std::span<const float> numbers) {
            tensor::add_weighted(accumulator.subspan(first, numbers.size()), numbers, weight);
        });
}

float largest_magnitude_of_low_rank(ByteView encoded) {
    const FloatEnvironmentGuard guard;
    float largest = 0;
    Factors factors;
    std::array<float, low_rank_side> memory;
    while (!encoded.empty()) {
        const auto shape = BlockShape::of_bytes(std::min(encoded.size(), low_rank_block_bytes));
        if (!shape) return std::numeric_limits<float>::infinity();
        factors.shape = *shape;
        read_factors(encoded.first(shape->bytes()), factors);
        encoded = encoded.subspan(shape->bytes());
        const std::span<float> numbers = std::span(memory).first(shape->columns);
        for (std::size_t row = 0; row < shape->rows; ++row) {
            expand(factors, row, numbers);
            largest = std::max(largest, largest_of(numbers));
        }
    }
    return largest;
}

}  // namespace dedloc::codec
