#include "dedloc/codec/error_feedback.h"

#include <algorithm>
#include <utility>

#include "dedloc/tensor/kernels.h"

namespace dedloc::codec {

StatelessCodec stateless_codec(CodecId id) {
    return {std::string(to_string(id)),
            [id](std::span<const float> values) -> Result<Bytes> {
                if (!tensor::all_finite(values))
                    return make_error(ErrorKind::bad_input, "a vector has non-finite numbers");
                return codec::encode(id, values);
            },
            [id](ByteView encoded, std::span<float> out) { return decode(id, encoded, out); },
            [id](ByteView encoded, float weight, std::span<float> sum) {
                return decode_accumulate(id, encoded, weight, sum);
            }};
}

StatelessCodec stateless_codec(TopK topk) {
    return {"topk" + std::to_string(topk.kept),
            [topk](std::span<const float> values) { return topk.encode(values); },
            [topk](ByteView encoded, std::span<float> out) { return topk.decode(encoded, out); },
            [topk](ByteView encoded, float weight, std::span<float> sum) {
                return topk.decode_accumulate(encoded, weight, sum);
            }};
}

ErrorFeedback::ErrorFeedback(StatelessCodec codec, std::size_t elements_count, float decay)
    : codec_(std::move(codec)), decay_(decay), residual_(elements_count, 0.0f) {
    DEDLOC_CHECK(decay >= 0 && decay <= 1, "decay {}", decay);
}

Result<Bytes> ErrorFeedback::encode(std::span<const float> input) {
    DEDLOC_CHECK(!unsettled_, "settle() the last vector first");
    DEDLOC_CHECK(input.size() == residual_.size(), "{} of {}", input.size(), residual_.size());
    std::vector<float> pending = residual_;
    tensor::add_weighted(pending, input, 1.0f);
    DEDLOC_TRY(Bytes bytes, codec_.encode(pending));
    // The summing peer must be able to hold it, else it could be sent and never taken back.
    std::vector<float> left = pending;
    DEDLOC_TRY_VOID(codec_.decode_accumulate(bytes, -1.0f, left));
    residual_ = std::move(pending);
    sent_ = bytes;
    unsettled_ = true;
    return bytes;
}

void ErrorFeedback::settle(bool taken) {
    DEDLOC_CHECK(unsettled_, "nothing to settle");
    unsettled_ = false;
    if (taken) {
        const Ok subtracted = codec_.decode_accumulate(sent_, -1.0f, residual_);
        DEDLOC_CHECK(subtracted.has_value(), "our own bytes");
        if (decay_ != 1.0f) tensor::scale(residual_, decay_);  // what no round took is not aged
    }
    sent_.clear();
}

void ErrorFeedback::forget() {
    std::fill(residual_.begin(), residual_.end(), 0.0f);
    sent_.clear();
    unsettled_ = false;
}

}  // namespace dedloc::codec
