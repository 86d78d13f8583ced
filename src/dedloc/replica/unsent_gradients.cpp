#include "dedloc/replica/unsent_gradients.h"

#include <algorithm>
#include <utility>

#include "dedloc/base/check.h"
#include "dedloc/tensor/kernels.h"

namespace dedloc::replica {

void UnsentGradients::hand_in(std::span<float> sum) {
    DEDLOC_CHECK(sum.size() >= unsent_.size(), "{} of {}", sum.size(), unsent_.size());
    const std::size_t chunk = codec::block_elements(codec_);
    Bytes bytes;
    for (std::size_t first = 0; first < unsent_.size(); first += chunk) {
        const std::size_t count = std::min(chunk, unsent_.size() - first);
        const std::span<float> pending = sum.subspan(first, count);
        const std::span<const float> unsent = std::span(unsent_).subspan(first, count);
        const std::span<float> left = std::span(left_).subspan(first, count);
        tensor::add_weighted(pending, unsent, 1.0f);
        if (!tensor::all_finite(pending)) {
            std::ranges::copy(unsent, left.begin());
            continue;
        }
        bytes.resize(codec::encoded_size(codec_, count));
        codec::encode_into(codec_, pending, bytes);
        std::ranges::copy(pending, left.begin());
        codec::accumulate_verified(codec_, bytes, -1.0f, left);
    }
    handed_in_ = true;
}

void UnsentGradients::settle(const std::vector<consensus::ElementRange>& taken,
                             const std::vector<allreduce::LeftOut>& left_out) {
    if (handed_in_) take_off(taken);
    handed_in_ = false;
    for (const allreduce::LeftOut& one : left_out) keep(one);
}

bool UnsentGradients::end(const std::vector<consensus::ElementRange>& owned) {
    if (!handed_in_ && owned.empty()) return false;
    std::vector<allreduce::LeftOut> lost;
    for (const consensus::ElementRange& range : owned)
        lost.push_back({.range = range, .rest = nullptr, .has_own = handed_in_});
    settle({{0, unsent_.size()}}, lost);
    return true;
}

void UnsentGradients::take_off(const std::vector<consensus::ElementRange>& taken) {
    if (taken.size() == 1 && taken[0].offset == 0 && taken[0].end() >= unsent_.size())
        return std::swap(unsent_, left_);
    for (const consensus::ElementRange& range : taken) {
        const std::size_t end = std::min<std::size_t>(range.end(), unsent_.size());
        for (std::size_t i = range.offset; i < end; ++i) unsent_[i] = left_[i];
    }
}

// A sum without our contribution leaves that unsent beside its rest.
void UnsentGradients::keep(const allreduce::LeftOut& left_out) {
    const std::size_t end = std::min<std::size_t>(left_out.range.end(), unsent_.size());
    for (std::size_t i = left_out.range.offset; i < end; ++i) {
        const float rest = left_out.rest ? (*left_out.rest)[i - left_out.range.offset] : 0.0f;
        unsent_[i] = left_out.has_own ? rest : unsent_[i] + rest;
    }
}

bool UnsentGradients::has_any() const {
    return std::ranges::any_of(unsent_, [](float each) { return each != 0; });
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
