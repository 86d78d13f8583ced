#include "dedloc/replica/deferred_gradients.h"

#include "dedloc/base/check.h"

namespace dedloc::replica {

using consensus::CounterRange;
using consensus::ElementRange;

std::shared_ptr<const allreduce::RoundInput> DeferredGradients::hand_in(CounterRange samples,
                                                                        std::vector<float> sum) {
    DEDLOC_CHECK(sum.size() == vector_count_ || samples.size() == 0);
    fresh_samples_ = samples;
    if (samples.size() + deferred_samples_.size() > samples_max_) expire_deferred();
    auto input = std::make_shared<allreduce::RoundInput>();
    input->input.fresh = fresh_samples_;
    if (deferred_samples_.size() > 0) {
        input->input.carried = deferred_samples_;
        input->input.carried_ranges = deferred_ranges_;
    }
    if (deferred_samples_.size() > 0 || unsent_)
        fresh_ = sum;
    else
        fresh_.clear();
    handed_in_ = input;
    input->sum = std::move(sum);
    if (input->sum.empty()) input->sum.assign(vector_count_, 0.0f);
    for (const ElementRange& range : deferred_ranges_)
        for (std::uint64_t i = range.offset; i < range.end(); ++i) input->sum[i] += deferred_[i];
    if (unsent_ && !input->input.is_empty()) unsent_->compress(input->sum);
    return input;
}

void DeferredGradients::hand_in_late(CounterRange samples, std::vector<float> sum) {
    if (samples.size() == 0) return;
    expire_deferred();
    defer(samples, std::move(sum), {{0, vector_count_}});
}

void DeferredGradients::committed(const consensus::RoundPlan& plan,
                                  const consensus::Decision& decision,
                                  std::optional<std::size_t> mine) {
    std::vector<ElementRange> included;
    if (mine)
        for (std::size_t p = 0; p < plan.parts.size() && p < decision.parts.size(); ++p)
            if (decision.parts[p].includes(*mine)) included.push_back(plan.parts[p].range());
    if (bugs_.count_twice) included.clear();
    included = consensus::joined(std::move(included));
    if (unsent_ && !bugs_.lose_unsent) unsent_->settle(included);
    const std::vector<ElementRange> excluded =
        consensus::complement(std::move(included), vector_count_);
    // A deferred gradient that is left out again would be two steps stale.
    for (const ElementRange& range : deferred_ranges_)
        expire(deferred_samples_, consensus::total_count(consensus::intersect(excluded, range)));
    deferred_samples_ = {};
    deferred_ranges_.clear();
    if (fresh_samples_.size() > 0 && !excluded.empty())
        defer(fresh_samples_, take_fresh(), excluded);
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

void DeferredGradients::forget() {
    expire_deferred();
    samples_expired_ += static_cast<double>(fresh_samples_.size());
    if (unsent_) unsent_->forget();
    forget_fresh();
}

void DeferredGradients::expire(CounterRange samples, std::uint64_t elements) {
    samples_expired_ += static_cast<double>(samples.size()) * static_cast<double>(elements) /
                        static_cast<double>(std::max<std::uint64_t>(1, vector_count_));
}

void DeferredGradients::expire_deferred() {
    expire(deferred_samples_, consensus::total_count(deferred_ranges_));
    deferred_samples_ = {};
    deferred_ranges_.clear();
    deferred_.clear();
}

// A change of buffers begins at a state that has moved on meanwhile, by the same: added to that,
// too, it would count twice, and make a running variance negative.
void DeferredGradients::defer(CounterRange samples,
                              std::vector<float> sum,
                              std::vector<ElementRange> ranges) {
    std::vector<ElementRange> gradients = consensus::intersect(ranges, {0, gradients_count_});
    expire(samples, consensus::total_count(ranges) - consensus::total_count(gradients));
    if (gradients.empty()) return;
    deferred_samples_ = samples;
    deferred_ranges_ = std::move(gradients);
    deferred_ = std::move(sum);
}

}  // namespace dedloc::replica
