// Feeds every decoder arbitrary bytes, and every encoder arbitrary numbers; checks what must hold
// whatever comes: no sum becomes non-finite unnoticed, and what is refused has added nothing.
//
// Input: byte 0 says which decoder, byte 1 how the rest is cut, bytes 2 and 3 the element count of
// hivemind's buffers, then the bytes.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "dedloc/base/check.h"
#include "dedloc/codec/error_feedback.h"
#include "dedloc/codec/hivemind.h"
#include "dedloc/tensor/kernels.h"

using namespace dedloc;
using namespace dedloc::codec;

namespace {

// The most elements whose encoding fits into so many bytes.
template <typename Size>
std::size_t elements_in(std::size_t bytes, std::size_t elements_most, Size size_of) {
    std::size_t low = 0;
    std::size_t high = elements_most;
    while (low < high) {
        const std::size_t middle = (low + high + 1) / 2;
        if (size_of(middle) <= bytes)
            low = middle;
        else
            high = middle - 1;
    }
    return low;
}

template <typename Accumulate>
void check_sums(std::size_t count, Accumulate accumulate) {
    for (const float weight : {1.0f, -0x1p62f, 1e-30f, INFINITY}) {
        std::vector<float> sum(count, 0.5f);
        if (accumulate(weight, std::span<float>(sum)))
            DEDLOC_CHECK(tensor::all_finite(sum));
        else
            DEDLOC_CHECK(sum == std::vector<float>(count, 0.5f));
    }
}

void native(CodecId id, ByteView bytes, bool exact) {
    const std::size_t most = is_sparse(id) ? 64 * bytes.size() : 2 * bytes.size() + 1;
    const std::size_t count =
        elements_in(bytes.size(), most, [&](std::size_t n) { return encoded_size(id, n); });
    if (exact) bytes = bytes.first(encoded_size(id, count));
    std::vector<float> decoded(count);
    const bool sound = decode(id, bytes, decoded).has_value();
    DEDLOC_CHECK(sound == (bytes.size() == encoded_size(id, count)));
    if (sound) {
        const float bound = magnitude_bound(id, bytes);
        for (const float value : decoded)
            DEDLOC_CHECK(std::isinf(bound) || std::abs(value) <= bound);
        DEDLOC_CHECK(verify(id, bytes, count, 1e-9f).has_value() == std::isfinite(bound));
    }
    check_sums(count, [&](float weight, std::span<float> sum) {
        return decode_accumulate(id, bytes, weight, sum).has_value();
    });
}

void topk(TopK codec, ByteView bytes, bool exact) {
    const std::size_t most = bytes.size() / 10 * topk_chunk + topk_chunk;
    const std::size_t count =
        elements_in(bytes.size(), most, [&](std::size_t n) { return codec.encoded_size(n); });
    if (exact) bytes = bytes.first(codec.encoded_size(count));
    std::vector<float> decoded(count);
    if (codec.decode(bytes, decoded)) DEDLOC_CHECK(tensor::all_finite(decoded));
    check_sums(count, [&](float weight, std::span<float> sum) {
        return codec.decode_accumulate(bytes, weight, sum).has_value();
    });
}

void hivemind(ByteView bytes, std::size_t count, std::size_t columns) {
    std::vector<float> out(count);
    for (const HivemindCompression compression : all_hivemind_compressions()) {
        for (const tensor::Dtype dtype :
             {tensor::Dtype::float32, tensor::Dtype::bfloat16, tensor::Dtype::int64})
            (void)decode_hivemind(compression, bytes, columns, out, dtype);
    }
}

void encoders(ByteView bytes) {
    std::vector<float> values(bytes.size() / 4);
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), 4 * values.size());
    const bool finite = tensor::all_finite(values);
    std::vector<float> back(values.size());
    for (const CodecId id : all_codecs()) {
        DEDLOC_CHECK(decode(id, encode(id, values), back));
        DEDLOC_CHECK(tensor::all_finite(back) == finite);
    }
    for (const HivemindCompression compression : all_hivemind_compressions()) {
        const auto encoded = encode_hivemind(compression, values, values.size());
        if (encoded)
            DEDLOC_CHECK(decode_hivemind(compression, *encoded, values.size(), back));
        else
            DEDLOC_CHECK(!finite);
    }
    ErrorFeedback feedback(stateless_codec(TopK{3}), values.size());
    for (int turn = 0; turn < 3; ++turn) {
        const bool sent = feedback.encode(values).has_value();
        DEDLOC_CHECK(finite || !sent);
        if (sent) feedback.settle(turn != 1);
        DEDLOC_CHECK(tensor::all_finite(feedback.residual()));
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 4) return 0;
    const ByteView bytes(data + 4, size - 4);
    const bool exact = (data[1] & 1) == 0;
    const std::size_t count = data[2] + 256 * (data[3] & 0x3fu);
    const std::vector<CodecId> ids = all_codecs();
    const std::size_t which = data[0] % (ids.size() + 4);
    if (which < ids.size())
        native(ids[which], bytes, exact);
    else if (which == ids.size())
        topk(TopK{}, bytes, exact);
    else if (which == ids.size() + 1)
        topk(TopK{4096u - data[2]}, bytes, exact);
    else if (which == ids.size() + 2)
        hivemind(bytes, count, data[1] == 0 ? count : data[1]);
    else
        encoders(bytes);
    return 0;
}
