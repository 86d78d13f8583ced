#include "dedloc/codec/hivemind.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <utility>

#include "dedloc/base/float_environment.h"
#include "dedloc/codec/hivemind_statistics.h"
#include "dedloc/tensor/kernels.h"

namespace dedloc::codec {
namespace {

constexpr float std_smallest = 1.1920929e-7f;  // hivemind's FP32_EPS
constexpr std::size_t bins = 256;
constexpr std::size_t dynamic_block = 4096;

constexpr std::array<std::pair<HivemindCompression, std::string_view>, 6> names = {{
    {HivemindCompression::none, "NONE"},
    {HivemindCompression::meanstd_16bit, "MEANSTD_16BIT"},
    {HivemindCompression::float16, "FLOAT16"},
    {HivemindCompression::quantile_8bit, "QUANTILE_8BIT"},
    {HivemindCompression::uniform_8bit, "UNIFORM_8BIT"},
    {HivemindCompression::blockwise_8bit, "BLOCKWISE_8BIT"},
}};

Error bad(std::string_view what, std::size_t bytes) {
    return make_error(
        ErrorKind::bad_input, "a hivemind tensor of {} bytes does not fit: {}", bytes, what);
}

// Appends the memory of numbers, which on our machines is little-endian (kernels.cpp checks).
template <typename Number>
void append(Bytes& bytes, std::span<const Number> numbers) {
    if (numbers.empty()) return;
    const std::size_t at = bytes.size();
    bytes.resize(at + numbers.size_bytes());
    std::memcpy(bytes.data() + at, numbers.data(), numbers.size_bytes());
}

void append_count(Bytes& bytes, std::size_t count) {
    const auto number = static_cast<std::int64_t>(count);
    append<std::int64_t>(bytes, std::span(&number, 1));
}

std::int64_t read_count(ByteView bytes) {
    std::int64_t number = 0;
    std::memcpy(&number, bytes.data(), sizeof number);
    return number;
}

std::vector<float> read_floats(ByteView bytes) {
    std::vector<float> floats(bytes.size() / 4);
    if (!floats.empty()) std::memcpy(floats.data(), bytes.data(), 4 * floats.size());
    return floats;
}

Bytes encode_halves(std::span<const float> values) {
    Bytes bytes(2 * values.size());
    if (tensor::all_finite(values)) {
        tensor::halves_from_floats_saturating(values, bytes);
        return bytes;
    }
    std::vector<float> clamped(values.begin(), values.end());
    for (float& value : clamped) value = std::clamp(value, -65504.0f, 65504.0f);
    tensor::halves_from_floats(clamped, bytes);
    return bytes;
}

Bytes encode_meanstd(std::span<const float> values, std::size_t columns) {
    std::vector<float> scaled(values.begin(), values.end());
    const std::size_t rows = columns == 0 ? 0 : values.size() / columns;
    std::vector<float> means(rows);
    std::vector<float> stds(rows);
    if (rows == 0) return {};  // `columns` may be anything then
    const auto root = static_cast<float>(std::sqrt(static_cast<double>(columns)));
    const std::vector<float> ones(columns, 1.0f);
    for (std::size_t i = 0; i < rows; ++i) {
        const std::span<float> row = std::span(scaled).subspan(i * columns, columns);
        means[i] = rounded_mean(row);
        tensor::add_weighted(row, ones, -means[i]);
        stds[i] = std::max(rounded_norm(row) / root, std_smallest);
        tensor::divide(row, stds[i]);
    }
    Bytes bytes = encode_halves(scaled);
    append<float>(bytes, means);
    append<float>(bytes, stds);
    return bytes;
}

Ok decode_meanstd(ByteView buffer, std::size_t columns, std::span<float> out) {
    const std::size_t rows = columns == 0 ? 0 : out.size() / columns;
    if (buffer.size() != 2 * out.size() + 8 * rows) return bad("halves and rows", buffer.size());
    if (rows == 0) return {};  // `columns` may be anything then
    tensor::floats_from_halves(buffer.first(2 * out.size()), out);
    const std::vector<float> statistics = read_floats(buffer.subspan(2 * out.size()));
    const std::vector<float> ones(columns, 1.0f);
    for (std::size_t i = 0; i < rows; ++i) {
        const std::span<float> row = out.subspan(i * columns, columns);
        tensor::scale(row, statistics[rows + i]);
        tensor::add_weighted(row, ones, statistics[i]);
    }
    return {};
}

// ---- codebooks ----------------------------------------------------------------------------------

// The mean of the values of each bin, summed in order of the elements, as hivemind does.
std::vector<float> bin_means(std::span<const float> values, std::span<const std::uint8_t> codes) {
    std::vector<float> sums(bins, 0.0f);
    std::vector<std::uint64_t> counts(bins, 0);
    for (std::size_t i = 0; i < values.size(); ++i) {
        sums[codes[i]] += values[i];
        ++counts[codes[i]];
    }
    for (std::size_t bin = 0; bin < bins; ++bin)
        sums[bin] /= static_cast<float>(std::max<std::uint64_t>(counts[bin], 1));
    return sums;
}

Bytes encode_codebook(std::span<const float> values, std::span<const std::uint8_t> codes) {
    Bytes bytes;
    bytes.reserve(8 + 4 * bins + values.size());
    append_count(bytes, bins);
    append<float>(bytes, bin_means(values, codes));
    append<std::uint8_t>(bytes, codes);
    return bytes;
}

Bytes encode_uniform(std::span<const float> values) {
    const float mean = rounded_mean(values);
    std::vector<float> centered(values.begin(), values.end());
    for (float& value : centered) value -= mean;
    const double freedom = static_cast<double>(values.size()) - 1;
    const float deviation = rounded_norm(centered) / static_cast<float>(std::sqrt(freedom));
    const float scale = 6 * deviation / static_cast<float>(bins);
    std::vector<std::uint8_t> codes(values.size(), std::uint8_t{bins / 2});
    const float inverse = 1.0f / scale;
    // All values equal, only one, or an overflow: hivemind divides by zero there; one bin must do.
    if (std::isfinite(inverse) && std::isfinite(scale)) {
        for (std::size_t i = 0; i < values.size(); ++i) {
            const float code = std::nearbyint(centered[i] * inverse) + float{bins / 2};
            codes[i] = static_cast<std::uint8_t>(std::clamp(code, 0.0f, float{bins - 1}));
        }
    }
    return encode_codebook(values, codes);
}

Bytes encode_quantile(std::span<const float> values) {
    const std::vector<float> quantiles = estimated_quantiles(values, bins + 1);
    const auto borders = std::span(quantiles).subspan<1, bins - 1>();
    std::vector<std::uint8_t> codes(values.size());
    for (std::size_t i = 0; i < values.size(); ++i) codes[i] = borders_below(borders, values[i]);
    return encode_codebook(values, codes);
}

Ok decode_codebook(ByteView buffer, std::span<float> out) {
    if (buffer.size() < 8) return bad("its codebook", buffer.size());
    const std::int64_t count = read_count(buffer);
    if (count < 0 || count > std::int64_t{bins} ||
        buffer.size() != 8 + 4 * static_cast<std::size_t>(count) + out.size())
        return bad("its codebook", buffer.size());
    const auto entries = static_cast<std::size_t>(count);
    const std::vector<float> codebook = read_floats(buffer.subspan(8, 4 * entries));
    const ByteView codes = buffer.subspan(8 + 4 * entries);
    for (std::size_t i = 0; i < out.size(); ++i) {
        if (codes[i] >= entries) return bad("a code beyond the codebook", buffer.size());
        out[i] = codebook[codes[i]];
    }
    return {};
}

Bytes encode_dynamic(std::span<const float> values) {
    const std::array<float, bins>& map = dynamic_map();
    const std::size_t blocks = (values.size() + dynamic_block - 1) / dynamic_block;
    std::vector<float> largest(blocks, 0.0f);
    std::vector<std::uint8_t> codes(values.size());
    for (std::size_t block = 0; block < blocks; ++block) {
        const std::size_t first = block * dynamic_block;
        const std::size_t count = std::min(dynamic_block, values.size() - first);
        for (const float value : values.subspan(first, count))
            largest[block] = std::max(largest[block], std::abs(value));
        for (std::size_t i = first; i < first + count; ++i) {
            const float normed = largest[block] == 0 ? 0 : values[i] / largest[block];
            codes[i] = nearest_in_dynamic_map(normed);
        }
    }
    Bytes bytes;
    bytes.reserve(16 + 4 * blocks + 4 * bins + values.size());
    append_count(bytes, blocks);
    append_count(bytes, bins);
    append<float>(bytes, largest);
    append<float>(bytes, map);
    append<std::uint8_t>(bytes, codes);
    return bytes;
}

Ok decode_dynamic(ByteView buffer, std::span<float> out) {
    const std::size_t blocks = (out.size() + dynamic_block - 1) / dynamic_block;
    if (buffer.size() < 16 || read_count(buffer) != static_cast<std::int64_t>(blocks))
        return bad("its number of blocks", buffer.size());
    const std::int64_t count = read_count(buffer.subspan(8));
    if (count < 0 || count > std::int64_t{bins} ||
        buffer.size() != 16 + 4 * (blocks + static_cast<std::size_t>(count)) + out.size())
        return bad("its codebook", buffer.size());
    const auto entries = static_cast<std::size_t>(count);
    const std::vector<float> largest = read_floats(buffer.subspan(16, 4 * blocks));
    const std::vector<float> codebook = read_floats(buffer.subspan(16 + 4 * blocks, 4 * entries));
    const ByteView codes = buffer.subspan(16 + 4 * (blocks + entries));
    for (std::size_t i = 0; i < out.size(); ++i) {
        if (codes[i] >= entries) return bad("a code beyond the codebook", buffer.size());
        out[i] = codebook[codes[i]] * largest[i / dynamic_block];
    }
    return {};
}

Ok decode_plain(ByteView buffer, std::span<float> out, tensor::Dtype dtype) {
    const bool four_bytes = buffer.size() == 4 * out.size();
    const bool two_bytes = buffer.size() == 2 * out.size();
    switch (dtype) {
        case tensor::Dtype::float32:
            break;
        case tensor::Dtype::float16:
            if (!two_bytes) return bad("halves", buffer.size());
            tensor::floats_from_halves(buffer, out);
            return {};
        case tensor::Dtype::bfloat16:
            if (four_bytes) break;  // as hivemind's older versions send it
            if (!two_bytes) return bad("bfloat16", buffer.size());
            tensor::floats_from_bfloat16(buffer, out);
            return {};
        default:
            return make_error(ErrorKind::unsupported,
                              "a tensor of {} has no fractions to average",
                              tensor::to_string(dtype));
    }
    if (!four_bytes) return bad("floats", buffer.size());
    if (!out.empty()) std::memcpy(out.data(), buffer.data(), buffer.size());
    return {};
}

}  // namespace

std::vector<HivemindCompression> all_hivemind_compressions() {
    std::vector<HivemindCompression> all;
    for (const auto& [compression, name] : names) all.push_back(compression);
    return all;
}

std::string_view to_string(HivemindCompression compression) {
    for (const auto& [known, name] : names)
        if (known == compression) return name;
    DEDLOC_CHECK(false, "compression {}", static_cast<int>(compression));
    return "";
}

Result<HivemindCompression> hivemind_compression_from_number(std::uint64_t number) {
    for (const auto& [compression, name] : names)
        if (static_cast<std::uint64_t>(compression) == number) return compression;
    return make_error(ErrorKind::unsupported, "hivemind's compression {} is unknown", number);
}

Result<Bytes> encode_hivemind(HivemindCompression compression,
                              std::span<const float> values,
                              std::size_t columns) {
    DEDLOC_CHECK(columns == 0 ? values.empty() : values.size() % columns == 0);
    const FloatEnvironmentGuard guard;
    const bool plain =
        compression == HivemindCompression::none || compression == HivemindCompression::float16;
    if (!plain && !tensor::all_finite(values))
        return make_error(ErrorKind::bad_input,
                          "numbers that are not finite cannot be compressed as {}",
                          to_string(compression));
    switch (compression) {
        case HivemindCompression::none: {
            Bytes bytes;
            append<float>(bytes, values);
            return bytes;
        }
        case HivemindCompression::float16:
            return encode_halves(values);
        case HivemindCompression::meanstd_16bit:
            return encode_meanstd(values, columns);
        case HivemindCompression::uniform_8bit:
            return encode_uniform(values);
        case HivemindCompression::quantile_8bit:
            return encode_quantile(values);
        case HivemindCompression::blockwise_8bit:
            return encode_dynamic(values);
    }
    DEDLOC_CHECK(false, "compression {}", static_cast<int>(compression));
    return Bytes();
}

Ok decode_hivemind(HivemindCompression compression,
                   ByteView buffer,
                   std::size_t columns,
                   std::span<float> out,
                   tensor::Dtype dtype) {
    if (columns == 0 ? !out.empty() : out.size() % columns != 0)
        return bad("its shape", buffer.size());
    const FloatEnvironmentGuard guard;
    switch (compression) {
        case HivemindCompression::none:
            return decode_plain(buffer, out, dtype);
        case HivemindCompression::float16:
            if (buffer.size() != 2 * out.size()) return bad("halves", buffer.size());
            tensor::floats_from_halves(buffer, out);
            return {};
        case HivemindCompression::meanstd_16bit:
            return decode_meanstd(buffer, columns, out);
        case HivemindCompression::uniform_8bit:
        case HivemindCompression::quantile_8bit:
            return decode_codebook(buffer, out);
        case HivemindCompression::blockwise_8bit:
            return decode_dynamic(buffer, out);
    }
    DEDLOC_CHECK(false, "compression {}", static_cast<int>(compression));
    return {};
}

}  // namespace dedloc::codec
