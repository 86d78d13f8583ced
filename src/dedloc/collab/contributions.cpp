#include "dedloc/collab/contributions.h"

#include <algorithm>

namespace dedloc::collab {

bool is_in(const consensus::Decision& decision,
           const consensus::RoundPlan& plan,
           std::size_t member) {
    return !plan.members[member].input.is_empty() &&
           std::ranges::any_of(decision.parts, [member](const consensus::FinishedPart& part) {
               return part.includes(member);
           });
}

bool Contributions::add(std::uint64_t samples, double loss_sum) {
    const std::lock_guard lock(ahead_mutex_);
    if (ahead_ == Ahead::no) {
        samples_ += samples;
        loss_sum_ = loss_sum_ + loss_sum;
    } else if (ahead_ == Ahead::yes) {
        samples_ahead_ += samples;
        loss_ahead_ += loss_sum;
    }
    return ahead_ == Ahead::no;
}

double Contributions::loss() const {
    const std::uint64_t samples = samples_;
    return samples > 0 ? loss_sum_ / static_cast<double>(samples) : handed_in_loss_.load();
}

void Contributions::compute_ahead() {
    const std::lock_guard lock(ahead_mutex_);
    ahead_ = Ahead::yes;
}

void Contributions::forget_ahead(std::uint64_t samples) {
    const std::lock_guard lock(ahead_mutex_);
    ahead_ = Ahead::no;
    samples_ahead_ = 0;
    loss_ahead_ = 0;
    forgotten_ += samples;
}

std::uint64_t Contributions::take_all() {
    const std::lock_guard lock(ahead_mutex_);
    loss_sum_ = loss_ahead_ = 0;
    return samples_.exchange(0) + samples_ahead_.exchange(0);
}

void Contributions::begin_step(bool keep_ahead) {
    const std::lock_guard lock(ahead_mutex_);
    samples_ = keep_ahead ? samples_ahead_.load() : 0;
    loss_sum_ = keep_ahead ? loss_ahead_ : 0;
    samples_ahead_ = 0;
    loss_ahead_ = 0;
    if (ahead_ != Ahead::no) ahead_ = keep_ahead ? Ahead::no : Ahead::lost;
}

std::shared_ptr<const allreduce::RoundInput> Contributions::hand_in(consensus::CounterRange samples,
                                                                    std::vector<float> sum,
                                                                    double loss_sum,
                                                                    TimePoint now,
                                                                    consensus::ElementRange moved) {
    if (samples.size() > 0) handed_in_loss_ = loss_sum / static_cast<double>(samples.size());
    auto input = deferred_.hand_in(samples, std::move(sum), moved);
    if (const replica::UnsentGradients* unsent = deferred_.unsent(); unsent && on_frozen_)
        on_frozen_({*input, unsent->unsent(), unsent->share(), unsent->forgotten()});
    handed_in_ = input->input;
    handed_in_at_ = now;
    return input;
}

void Contributions::hand_in_late(consensus::CounterRange samples,
                                 std::vector<float> sum,
                                 consensus::ElementRange moved) {
    deferred_.hand_in_late(samples, std::move(sum), moved);
}

std::optional<TimePoint> Contributions::fresh_handed_in_at() const {
    if (!handed_in_ || handed_in_->fresh.size() == 0) return std::nullopt;
    return handed_in_at_;
}

std::optional<TimePoint> Contributions::handed_in_at(std::optional<std::size_t> mine) const {
    if (!mine || handed_in_->is_empty()) return std::nullopt;
    return handed_in_at_;
}

std::optional<std::size_t> Contributions::place_in(const consensus::RoundPlan& plan,
                                                   const PeerId& us) const {
    if (!handed_in_) return std::nullopt;
    std::optional<std::size_t> mine;
    for (std::size_t i = 0; i < plan.members.size(); ++i)
        if (plan.members[i].peer == us && plan.members[i].input == *handed_in_) mine = i;
    return mine;
}

void Contributions::committed(const consensus::RoundPlan& plan,
                              const consensus::Decision& decision,
                              std::optional<std::size_t> mine,
                              std::vector<allreduce::LeftOut> left_out) {
    if (mine && !decision.parts.empty() && decision.parts[0].includes(*mine))
        committed_samples_ += deferred_.fresh_handed_in();
    if (mine && handed_in_->fresh.size() > 0 && is_in(decision, plan, *mine)) {
        contributed_to_ = decision.instance;
        contributed_loss_ = handed_in_loss_;
    }
    deferred_.committed(plan, decision, mine, std::move(left_out));
    handed_in_.reset();
}

void Contributions::forget() {
    deferred_.forget();
    handed_in_.reset();
}

std::uint64_t Contributions::forget_refused() {
    const std::uint64_t samples = deferred_.fresh_handed_in();
    forget();
    return samples;
}

std::optional<double> Contributions::loss_in(const consensus::Instance& commit) const {
    if (contributed_to_ != commit) return std::nullopt;
    return contributed_loss_;
}

}  // namespace dedloc::collab
