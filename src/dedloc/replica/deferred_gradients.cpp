#include "dedloc/replica/deferred_gradients.h"

#include "dedloc/base/check.h"

namespace dedloc::replica {

using consensus::CounterRange;
using consensus::ElementRange;

std::shared_ptr<const allreduce::RoundInput> DeferredGradients::hand_in(CounterRange samples,
                                                                        std::vector<float> sum,
                                                                        ElementRange moved) {
    DEDLOC_CHECK(sum.size() == vector_count_ || samples.size() == 0);
    moved_ = all_if_empty(moved);
    expire_refused(samples, sum, moved_);
    fresh_samples_ = samples;
    auto deferred = deferred_.find(moved_.offset);
    if (deferred != deferred_.end() &&
        samples.size() + deferred->second.samples.size() > samples_max_) {
        expire_deferred(moved_.offset);
        deferred = deferred_.end();
    }
    const bool has_deferred = deferred != deferred_.end();
    auto input = std::make_shared<allreduce::RoundInput>();
    input->input.fresh = fresh_samples_;
    if (has_deferred) {
        input->input.carried = deferred->second.samples;
        input->input.carried_ranges = deferred->second.ranges;
    }
    if (has_deferred || unsent_)
        fresh_ = sum;
    else
        fresh_.clear();
    handed_in_ = input;
    input->sum = std::move(sum);
    if (input->sum.empty()) input->sum.assign(vector_count_, 0.0f);
    for (const ElementRange& range : input->input.carried_ranges)
        for (std::uint64_t i = range.offset; i < range.end(); ++i)
            input->sum[i] += deferred->second.sum[i - moved_.offset];
    if (unsent_ && !input->input.is_empty())
        unsent_->hand_in(input->sum, static_cast<double>(input->input.weight_max()));
    return input;
}

void DeferredGradients::hand_in_late(CounterRange samples,
                                     std::vector<float> sum,
                                     ElementRange moved) {
    moved = all_if_empty(moved);
    expire_refused(samples, sum, moved);
    if (samples.size() == 0) return;
    expire_deferred(moved.offset);
    defer(samples, sum, {moved}, moved);
}

void DeferredGradients::committed(const consensus::RoundPlan& plan,
                                  const consensus::Decision& decision,
                                  std::optional<std::size_t> mine,
                                  std::vector<allreduce::LeftOut> left_out) {
    std::vector<ElementRange> included;
    if (mine)
        for (std::size_t p = 0; p < plan.parts.size() && p < decision.parts.size(); ++p)
            if (decision.parts[p].includes(*mine)) included.push_back(plan.parts[p].range());
    if (bugs_.count_twice) included.clear();
    included = consensus::joined(std::move(included));
    for (allreduce::LeftOut& one : left_out)
        if (bugs_.lose_left_out) one.rest = nullptr;
    if (unsent_ && !bugs_.lose_unsent) unsent_->settle(included, left_out);
    // A liar that votes alone may have certified a plan of any range.
    const ElementRange moved =
        fresh_samples_.size() > 0 ? moved_ : all_if_empty(consensus::moved_range(plan));
    const std::vector<ElementRange> excluded =
        consensus::intersect(consensus::complement(included, vector_count_), moved);
    // A deferred gradient that is left out again would be two steps stale.
    if (const auto deferred = deferred_.find(moved.offset); deferred != deferred_.end()) {
        for (const ElementRange& range : deferred->second.ranges)
            expire(deferred->second.samples,
                   consensus::total_count(consensus::intersect(excluded, range)));
        deferred_.erase(deferred);
    }
    if (fresh_samples_.size() > 0 && !excluded.empty())
        defer(fresh_samples_, take_fresh(), excluded, moved);
    forget_fresh();
}

std::vector<float> DeferredGradients::take_fresh() {
    return fresh_.empty() && handed_in_ ? handed_in_->sum : std::move(fresh_);
}

void DeferredGradients::forget_fresh() {
    fresh_samples_ = {};
    fresh_.clear();
    handed_in_.reset();
}

std::uint64_t DeferredGradients::fresh_handed_in() const {
    return consensus::samples_on(moved_, fresh_samples_.size(), vector_count_);
}

void DeferredGradients::forget() {
    while (!deferred_.empty()) expire_deferred(deferred_.begin()->first);
    expire(fresh_samples_, moved_.count);
    if (unsent_) unsent_->forget();
    forget_fresh();
}

void DeferredGradients::expire_refused(CounterRange& samples,
                                       std::vector<float>& sum,
                                       ElementRange moved) {
    if (samples.left_out <= samples_max_) return;
    expire(samples, moved.count);
    samples = {samples.end, samples.end};
    sum.clear();
}

void DeferredGradients::expire(CounterRange samples, std::uint64_t elements) {
    samples_expired_ += static_cast<double>(samples.size()) * static_cast<double>(elements) /
                        static_cast<double>(std::max<std::uint64_t>(1, vector_count_));
}

void DeferredGradients::expire_deferred(std::uint64_t moved_from) {
    const auto deferred = deferred_.find(moved_from);
    if (deferred == deferred_.end()) return;
    expire(deferred->second.samples, consensus::total_count(deferred->second.ranges));
    deferred_.erase(deferred);
}

// A change of buffers begins at a state that has moved on meanwhile, by the same: added to that,
// too, it would count twice, and make a running variance negative.
void DeferredGradients::defer(CounterRange samples,
                              const std::vector<float>& sum,
                              std::vector<ElementRange> ranges,
                              ElementRange moved) {
    std::vector<ElementRange> gradients = consensus::intersect(ranges, {0, gradients_count_});
    expire(samples, consensus::total_count(ranges) - consensus::total_count(gradients));
    if (gradients.empty()) return;
    const auto first = sum.begin() + static_cast<std::ptrdiff_t>(moved.offset);
    deferred_.insert_or_assign(moved.offset,
                               Deferred{samples,
                                        std::move(gradients),
                                        {first, first + static_cast<std::ptrdiff_t>(moved.count)}});
}

}  // namespace dedloc::replica
