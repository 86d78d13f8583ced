#include "dedloc/replica/unsent_gradients.h"

#include <algorithm>
#include <utility>

#include "dedloc/base/check.h"
#include "dedloc/tensor/kernels.h"

namespace dedloc::replica {
namespace {

// Weight of a contribution in the usual number of samples: a few short rounds in a row change it
// little, and what is left of long ones takes some 64 rounds to leave.
constexpr double smoothing = 1.0 / 16;
// Rounds differ; only what is left of much longer ones is held back.
constexpr double short_share = 0.5;

}  // namespace

float UnsentGradients::share_of(double samples) {
    if (usual_samples_ <= 0) usual_samples_ = samples;
    const double share = samples / (short_share * usual_samples_);
    usual_samples_ += smoothing * (samples - usual_samples_);
    return static_cast<float>(std::min(1.0, share));
}

void UnsentGradients::hand_in(std::span<float> sum, double samples) {
    DEDLOC_CHECK(sum.size() >= unsent_.size(), "{} of {}", sum.size(), unsent_.size());
    const std::size_t chunk = codec::block_elements(codec_);
    share_ = share_of(samples);
    Bytes bytes;
    for (std::size_t first = 0; first < unsent_.size(); first += chunk) {
        const std::size_t count = std::min(chunk, unsent_.size() - first);
        const std::span<float> pending = sum.subspan(first, count);
        const std::span<const float> unsent = std::span(unsent_).subspan(first, count);
        const std::span<float> left = std::span(left_).subspan(first, count);
        tensor::add_weighted(pending, unsent, share_);
        if (!tensor::all_finite(pending)) {
            std::ranges::copy(unsent, left.begin());
            continue;
        }
        bytes.resize(codec::encoded_size(codec_, count));
        codec::encode_into(codec_, pending, bytes);
        std::ranges::copy(pending, left.begin());
        codec::accumulate_verified(codec_, bytes, -1.0f, left);
        if (share_ < 1) tensor::add_weighted(left, unsent, 1 - share_);
    }
    handed_in_ = true;
}

void UnsentGradients::settle(const std::vector<consensus::ElementRange>& taken,
                             const std::vector<allreduce::LeftOut>& left_out) {
    std::vector<consensus::ElementRange> replaced;
    if (handed_in_) replaced = taken;
    for (const allreduce::LeftOut& one : left_out) {
        if (!one.has_own) continue;
        keep_in_place(one);
        replaced.push_back(one.range);
    }
    take_off(consensus::joined(std::move(replaced)));
    for (const allreduce::LeftOut& one : left_out)
        if (!one.has_own) keep_beside(one);
    handed_in_ = false;
    share_ = 1;
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

// Our contribution is in that sum, whole: its rest comes in the place of what was brought.
void UnsentGradients::keep_in_place(const allreduce::LeftOut& left_out) {
    const std::size_t first = left_out.range.offset;
    const std::size_t end = std::min<std::size_t>(left_out.range.end(), unsent_.size());
    for (std::size_t i = first; i < end; ++i)
        left_[i] = (1 - share_) * unsent_[i] + (left_out.rest ? (*left_out.rest)[i - first] : 0.0f);
}

// A sum without our contribution leaves that unsent beside its rest.
void UnsentGradients::keep_beside(const allreduce::LeftOut& left_out) {
    if (!left_out.rest) return;
    const std::size_t first = left_out.range.offset;
    const std::size_t end = std::min<std::size_t>(left_out.range.end(), unsent_.size());
    for (std::size_t i = first; i < end; ++i) unsent_[i] += (*left_out.rest)[i - first];
}

bool UnsentGradients::has_any() const {
    return std::ranges::any_of(unsent_, [](float each) { return each != 0; });
}

void UnsentGradients::forget() {
    handed_in_ = false;
    share_ = 1;
    ++forgotten_;
    std::ranges::fill(unsent_, 0.0f);
}

void UnsentGradients::take_up(std::span<const float> unsent, double usual_samples) {
    if (unsent.size() != unsent_.size() || !tensor::all_finite(unsent)) return;
    std::ranges::copy(unsent, unsent_.begin());
    usual_samples_ = usual_samples;
}

}  // namespace dedloc::replica
