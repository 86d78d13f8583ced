#include "dedloc/codec/codec.h"

#include <array>
#include <cstring>

#include "dedloc/tensor/kernels.h"

namespace dedloc::codec {
namespace {

// What a codec is. To add one: a number in CodecId, an entry in `table`, a case in codec_test.cpp.
struct Codec {
    CodecId id;
    std::string_view name;
    std::size_t (*encoded_size)(std::size_t elements_count);
    void (*encode)(std::span<const float> values, std::span<std::uint8_t> out);
    void (*decode)(ByteView encoded, std::span<float> out);
    void (*add_weighted)(std::span<float> accumulator, ByteView encoded, float weight);
};

void encode_fp32(std::span<const float> values, std::span<std::uint8_t> out) {
    if (!values.empty()) std::memcpy(out.data(), values.data(), out.size());
}

void decode_fp32(ByteView encoded, std::span<float> out) {
    if (!out.empty()) std::memcpy(out.data(), encoded.data(), encoded.size());
}

constexpr std::array<Codec, 2> table = {{
    {CodecId::fp32,
     "fp32",
     [](std::size_t elements_count) { return 4 * elements_count; },
     encode_fp32,
     decode_fp32,
     tensor::add_weighted_floats},
    {CodecId::fp16,
     "fp16",
     [](std::size_t elements_count) { return 2 * elements_count; },
     tensor::halves_from_floats_saturating,
     tensor::floats_from_halves,
     tensor::add_weighted_halves},
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

std::size_t encoded_size(CodecId id, std::size_t elements_count) {
    return codec_of(id).encoded_size(elements_count);
}

void encode(CodecId id, std::span<const float> values, std::span<std::uint8_t> out) {
    const Codec& codec = codec_of(id);
    DEDLOC_CHECK(out.size() == codec.encoded_size(values.size()),
                 "{} values in {} bytes of {}",
                 values.size(),
                 out.size(),
                 codec.name);
    codec.encode(values, out);
}

Bytes encode(CodecId id, std::span<const float> values) {
    Bytes out(encoded_size(id, values.size()));
    encode(id, values, out);
    return out;
}

Ok decode(CodecId id, ByteView encoded, std::span<float> out) {
    const Codec& codec = codec_of(id);
    DEDLOC_TRY_VOID(check_size(codec, encoded.size(), out.size()));
    codec.decode(encoded, out);
    return {};
}

Ok decode_add_weighted(CodecId id, ByteView encoded, float weight, std::span<float> accumulator) {
    const Codec& codec = codec_of(id);
    DEDLOC_TRY_VOID(check_size(codec, encoded.size(), accumulator.size()));
    codec.add_weighted(accumulator, encoded, weight);
    return {};
}

}  // namespace dedloc::codec
