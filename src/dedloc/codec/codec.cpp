#include "dedloc/codec/codec.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "dedloc/codec/low_rank.h"
#include "dedloc/codec/topk.h"
#include "dedloc/tensor/blocks8.h"
#include "dedloc/tensor/kernels.h"

namespace dedloc::codec {
namespace {

// A codec's entry. To add one: a number in CodecId, an entry in `table`, a case in codec_test.cpp.
struct Codec {
    CodecId id;
    std::string_view name;
    std::size_t block_elements;  // that share something, and
    std::size_t block_bytes;     // their bytes; the last block may be shorter:
    std::size_t (*encoded_size)(std::size_t elements_count);
    void (*encode)(std::span<const float> values, std::span<std::uint8_t> out, float factor);
    void (*decode)(ByteView encoded, std::span<float> out);
    void (*add_weighted)(std::span<float> accumulator, ByteView encoded, float weight);
    float (*magnitude_bound)(ByteView encoded);
    bool sparse = false;
    bool of_sums = false;  // no run file's choice
};

void encode_fp32(std::span<const float> values, std::span<std::uint8_t> out, float factor) {
    if (factor != 1.0f)
        tensor::scaled_copy(values, out, factor);
    else if (!values.empty())
        std::memcpy(out.data(), values.data(), out.size());
}

void decode_fp32(ByteView encoded, std::span<float> out) {
    if (!out.empty()) std::memcpy(out.data(), encoded.data(), encoded.size());
}

template <std::size_t bytes>
std::size_t plain_size(std::size_t elements_count) {
    return bytes * elements_count;
}

constexpr std::array<Codec, 7> table = {{
    {CodecId::fp32,
     "fp32",
     1,
     4,
     plain_size<4>,
     encode_fp32,
     decode_fp32,
     tensor::add_weighted_floats,
     tensor::largest_magnitude_of_floats},
    {CodecId::fp16,
     "fp16",
     1,
     2,
     plain_size<2>,
     tensor::halves_from_floats_saturating,
     tensor::floats_from_halves,
     tensor::add_weighted_halves,
     tensor::largest_magnitude_of_halves},
    {CodecId::bf16,
     "bf16",
     1,
     2,
     plain_size<2>,
     tensor::bfloat16_from_floats_saturating,
     tensor::floats_from_bfloat16,
     tensor::add_weighted_bfloat16,
     tensor::largest_magnitude_of_bfloat16},
    {CodecId::blockwise8,
     "blockwise8",
     tensor::block8_elements,
     tensor::block8_bytes,
     tensor::blocks8_size,
     tensor::blocks8_from_floats,
     tensor::floats_from_blocks8,
     tensor::add_weighted_blocks8,
     tensor::largest_magnitude_of_blocks8},
    {CodecId::sparse,
     "sparse",
     topk_chunk,
     88,
     sparse_size<sparse_kept>,
     sparse_from_floats<sparse_kept>,
     floats_from_sparse<sparse_kept>,
     add_weighted_sparse<sparse_kept>,
     largest_magnitude_of_sparse<sparse_kept>,
     true},
    {CodecId::low_rank,
     "low_rank",
     low_rank_block,
     low_rank_block_bytes,
     low_rank_size,
     low_rank_from_floats,
     floats_from_low_rank,
     add_weighted_low_rank,
     largest_magnitude_of_low_rank,
     true},
    {CodecId::sparse_sum,
     "sparse_sum",
     topk_chunk,
     456,
     sparse_size<sparse_sum_kept>,
     sparse_from_floats<sparse_sum_kept>,
     floats_from_sparse<sparse_sum_kept>,
     add_weighted_sparse<sparse_sum_kept>,
     largest_magnitude_of_sparse<sparse_sum_kept>,
     true,
     true},
}};

const Codec& codec_of(CodecId id) {
    for (const Codec& codec : table) {
        if (codec.id == id) return codec;
    }
    DEDLOC_CHECK(false, "codec {}", static_cast<int>(id));
    return table[0];
}

Ok check_size(const Codec& codec, std::size_t bytes_size, std::size_t elements_count) {
    const std::size_t wanted = codec.encoded_size(elements_count);
    if (bytes_size == wanted) return {};
    return make_error(ErrorKind::bad_input,
                      "{} elements in {} are {} bytes, but {} came",
                      elements_count,
                      codec.name,
                      wanted,
                      bytes_size);
}

}  // namespace

std::vector<CodecId> all_codecs() {
    std::vector<CodecId> ids;
    for (const Codec& codec : table) ids.push_back(codec.id);
    return ids;
}

std::string_view to_string(CodecId id) { return codec_of(id).name; }

Result<CodecId> codec_from_string(std::string_view text) {
    std::string known;
    for (const Codec& codec : table) {
        if (codec.of_sums) continue;
        if (codec.name == text) return codec.id;
        known += known.empty() ? "" : ", ";
        known += codec.name;
    }
    return make_error(
        ErrorKind::bad_input, "'{}' is not a codec; use one of {}", text.substr(0, 32), known);
}

Result<CodecId> codec_from_number(std::uint64_t number) {
    for (const Codec& codec : table) {
        if (static_cast<std::uint64_t>(codec.id) == number) return codec.id;
    }
    return make_error(
        ErrorKind::unsupported, "codec number {} is unknown here: update dedloc", number);
}

std::size_t block_elements(CodecId id) { return codec_of(id).block_elements; }

bool is_sparse(CodecId id) { return codec_of(id).sparse; }

std::optional<CodecId> sum_codec(CodecId id) {
    if (id == CodecId::sparse) return CodecId::sparse_sum;
    return std::nullopt;
}

bool adds_sums(CodecId id, std::size_t contributors, std::size_t gather_max) {
    return contributors > gather_max && sum_codec(id).has_value();
}

double average_cost(CodecId id, std::size_t contributors, std::size_t gather_max) {
    if (!is_sparse(id)) return 1;
    if (adds_sums(id, contributors, gather_max))
        return bytes_per_element(*sum_codec(id)) / bytes_per_element(id);
    return std::max(1.0, static_cast<double>(contributors) - 1);
}

std::size_t encoded_size(CodecId id, std::size_t elements_count) {
    return codec_of(id).encoded_size(elements_count);
}

double bytes_per_element(CodecId id) {
    const Codec& codec = codec_of(id);
    return static_cast<double>(codec.block_bytes) / static_cast<double>(codec.block_elements);
}

ByteView window(CodecId id, ByteView encoded, std::size_t first, std::size_t count) {
    const Codec& codec = codec_of(id);
    DEDLOC_CHECK(first % codec.block_elements == 0, "a window at {} of {}", first, codec.name);
    const std::size_t begin = first / codec.block_elements * codec.block_bytes;
    const std::size_t size = codec.encoded_size(count);
    DEDLOC_CHECK(begin <= encoded.size() && size <= encoded.size() - begin);
    DEDLOC_CHECK(count % codec.block_elements == 0 || begin + size == encoded.size());
    return encoded.subspan(begin, size);
}

void encode_into(CodecId id,
                 std::span<const float> values,
                 std::span<std::uint8_t> out,
                 float factor) {
    const Codec& codec = codec_of(id);
    DEDLOC_CHECK(out.size() == codec.encoded_size(values.size()),
                 "{} values in {} bytes of {}",
                 values.size(),
                 out.size(),
                 codec.name);
    codec.encode(values, out, factor);
}

Bytes encode(CodecId id, std::span<const float> values) {
    Bytes out(encoded_size(id, values.size()));
    encode_into(id, values, out);
    return out;
}

Ok decode(CodecId id, ByteView encoded, std::span<float> out) {
    const Codec& codec = codec_of(id);
    DEDLOC_TRY_VOID(check_size(codec, encoded.size(), out.size()));
    codec.decode(encoded, out);
    return {};
}

float magnitude_bound(CodecId id, ByteView encoded) {
    return codec_of(id).magnitude_bound(encoded);
}

bool is_at_its_range(CodecId id, ByteView encoded) {
    constexpr float largest_half = 65504.0f;
    return id == CodecId::fp16 && magnitude_bound(id, encoded) >= largest_half;
}

Ok verify(CodecId id, ByteView encoded, std::size_t elements_count, float weight) {
    const Codec& codec = codec_of(id);
    DEDLOC_TRY_VOID(check_size(codec, encoded.size(), elements_count));
    const float magnitude = codec.magnitude_bound(encoded);
    if (!std::isfinite(magnitude) || !std::isfinite(weight))
        return make_error(ErrorKind::bad_input, "a vector has numbers that are not finite");
    // In double precision, where the product of two floats cannot overflow.
    if (static_cast<double>(magnitude) * std::abs(static_cast<double>(weight)) >
        static_cast<double>(accumulated_magnitude_max))
        return make_error(ErrorKind::bad_input,
                          "a vector has numbers as large as {:g} (weight {:g}), which no sum could "
                          "hold",
                          magnitude,
                          weight);
    return {};
}

void accumulate_verified(CodecId id, ByteView encoded, float weight, std::span<float> sum) {
    const Codec& codec = codec_of(id);
    DEDLOC_CHECK(encoded.size() == codec.encoded_size(sum.size()));
    codec.add_weighted(sum, encoded, weight);
}

Ok decode_accumulate(CodecId id, ByteView encoded, float weight, std::span<float> sum) {
    DEDLOC_TRY_VOID(verify(id, encoded, sum.size(), weight));
    accumulate_verified(id, encoded, weight, sum);
    return {};
}

}  // namespace dedloc::codec
