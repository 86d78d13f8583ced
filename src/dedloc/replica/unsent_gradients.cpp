#include "dedloc/replica/unsent_gradients.h"

#include <algorithm>
#include <array>

#include "dedloc/base/check.h"
#include "dedloc/codec/codec.h"
#include "dedloc/tensor/kernels.h"

namespace dedloc::replica {

void UnsentGradients::compress(std::span<float> sum) {
    DEDLOC_CHECK(sum.size() >= unsent_.size(), "{} of {}", sum.size(), unsent_.size());
    constexpr codec::CodecId id = codec::CodecId::sparse;
    const std::size_t chunk = codec::block_elements(id);
    std::vector<float> pending(chunk);
    Bytes bytes;
    for (std::size_t first = 0; first < unsent_.size(); first += chunk) {
        const std::size_t count = std::min(chunk, unsent_.size() - first);
        const std::span<float> sent = sum.subspan(first, count);
        const std::span<float> all = std::span(pending).first(count);
        std::ranges::copy(sent, all.begin());
        tensor::add_weighted(all, std::span(unsent_).subspan(first, count), 1.0f);
        const std::span<float> left = std::span(left_).subspan(first, count);
        if (!tensor::all_finite(all)) {
            std::ranges::copy(std::span(unsent_).subspan(first, count), left.begin());
            continue;
        }
        bytes.resize(codec::encoded_size(id, count));
        codec::encode_into(id, all, bytes);
        const Ok decoded = codec::decode(id, bytes, sent);
        DEDLOC_CHECK(decoded.has_value(), "our own bytes");
        std::ranges::copy(all, left.begin());
        tensor::add_weighted(left, sent, -1.0f);
    }
    handed_in_ = true;
}

void UnsentGradients::settle(const std::vector<consensus::ElementRange>& taken) {
    if (!handed_in_) return;
    handed_in_ = false;
    for (const consensus::ElementRange& range : taken) {
        const std::size_t end = std::min<std::size_t>(range.end(), unsent_.size());
        for (std::size_t i = range.offset; i < end; ++i) unsent_[i] = left_[i];
    }
}

void UnsentGradients::forget() {
    handed_in_ = false;
    ++forgotten_;
    std::ranges::fill(unsent_, 0.0f);
}

void UnsentGradients::take_up(std::span<const float> unsent) {
    if (unsent.size() != unsent_.size() || !tensor::all_finite(unsent)) return;
    std::ranges::copy(unsent, unsent_.begin());
}

}  // namespace dedloc::replica
