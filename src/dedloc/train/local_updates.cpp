#include "dedloc/train/local_updates.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "dedloc/base/check.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/tensor/kernels.h"

namespace dedloc::train {

namespace {

// Moves the way from `start` to `here` so that it starts at `newer`. What a global step has left as
// it was keeps its bits.
void move(std::vector<float>& here, std::vector<float>& start, std::span<const float> newer) {
    for (std::size_t i = 0; i < here.size(); ++i) {
        if (newer[i] == start[i]) continue;
        here[i] = newer[i] + (here[i] - start[i]);
        start[i] = newer[i];
    }
}

constexpr int not_finite_least =
    3;  // in a row, until inner steps are given up: one may be bad samples

}  // namespace

LocalUpdates::LocalUpdates(Model& model, run::LocalConfig config, InnerMoments lasting)
    : model_(model),
      config_(std::move(config)),
      lasting_(lasting),
      layout_(model.layout()),
      groups_(layout_.parameters),
      buffers_(layout_.buffers_count),
      buffers_change_(layout_.buffers_count),
      gradient_(layout_.parameters_count) {
    DEDLOC_CHECK(config_.batch > 0);
    for (std::size_t i = 0; i < optim::moments_count(config_.optimizer); ++i)
        moments_.emplace_back(
            optim::moment_sizes(config_.optimizer, layout_.parameters, layout_.parameters_count, i)
                .values);
}

// Groups are frozen until a global step, whatever number inner steps have.
void LocalUpdates::is_at(std::uint64_t global_step) {
    constexpr std::uint64_t always = std::numeric_limits<std::uint64_t>::max();
    global_step_ = global_step;
    for (std::size_t i = 0; i < groups_.size(); ++i)
        groups_[i].frozen_until = global_step < layout_.parameters[i].frozen_until ? always : 0;
}

void LocalUpdates::begin_at(const state::Snapshot& state) {
    model_.forget_sum();
    const std::span<const float> parameters = replica::parameters_of(state);
    const std::span<const float> buffers = replica::buffers_of(state);
    is_at(state.step());
    start_.assign(parameters.begin(), parameters.end());
    here_ = start_;
    start_buffers_.assign(buffers.begin(), buffers.end());
    buffers_ = start_buffers_;
    since_start_ = 0;
    since_step_ = 0;
    not_finite_in_a_row_ = 0;
    if (lasting_ == InnerMoments::of_one_step) forget_moments();
    model_.load(here_, buffers_);
}

void LocalUpdates::move_to(const state::Snapshot& state) {
    const std::span<const float> parameters = replica::parameters_of(state);
    const std::span<const float> buffers = replica::buffers_of(state);
    is_at(state.step());
    move(here_, start_, parameters);
    move(buffers_, start_buffers_, buffers);
    if (!is_finite()) forget_inner_steps();
    model_.load(here_, buffers_);
}

bool LocalUpdates::added(std::uint64_t samples) {
    not_finite_in_a_row_ = 0;
    since_step_ += samples;
    since_start_ += samples;
    if (since_step_ < config_.batch || inner_step()) return true;
    since_start_ -= samples;
    return false;
}

// On what has been summed. False: nothing came of it.
bool LocalUpdates::inner_step() {
    const std::uint64_t samples = std::exchange(since_step_, 0);
    model_.take(gradient_, buffers_change_, 1);
    tensor::add_weighted(buffers_, buffers_change_, 1.0f);
    // A sum of finite gradients may still not be finite.
    if (!tensor::all_finite(gradient_)) return false;
    const auto divisor = static_cast<float>(samples);
    for (float& element : gradient_) element /= divisor;
    const std::vector<std::span<float>> moments(moments_.begin(), moments_.end());
    optim::step(optimizer_for(samples), groups_, inner_steps_, here_, gradient_, moments);
    const bool sound = is_finite();
    if (sound)
        ++inner_steps_;
    else
        forget_inner_steps();
    model_.load(here_, buffers_);
    return sound;
}

// With the learning rate of this global step, whatever number the inner step has.
optim::OptimizerConfig LocalUpdates::optimizer_for(std::uint64_t samples) const {
    const double share =
        std::min(1.0, static_cast<double>(samples) / static_cast<double>(config_.batch));
    const double rate = optim::learning_rate(config_.optimizer.schedule, global_step_);
    optim::OptimizerConfig optimizer = config_.optimizer;
    optimizer.schedule = {.kind = optim::ScheduleKind::constant, .peak = rate * share};
    return optimizer;
}

bool LocalUpdates::is_finite() const {
    return tensor::all_finite(here_) && tensor::all_finite(buffers_) &&
           std::all_of(moments_.begin(), moments_.end(), [](const std::vector<float>& moment) {
               return tensor::all_finite(moment);
           });
}

void LocalUpdates::forget_moments() {
    for (std::vector<float>& moment : moments_) std::fill(moment.begin(), moment.end(), 0.0f);
    inner_steps_ = 0;
}

// The steps' samples count as computed, and bring nothing.
void LocalUpdates::forget_inner_steps() {
    here_ = start_;
    buffers_ = start_buffers_;
    forget_moments();
}

// Several in a row lead back to the start; at the start itself there is no other place to go.
void LocalUpdates::left_out() {
    if (++not_finite_in_a_row_ < not_finite_least) return;
    not_finite_in_a_row_ = 0;
    if (here_ == start_) return;
    forget_inner_steps();
    since_step_ = 0;
    model_.forget_sum();
    model_.load(here_, buffers_);
}

consensus::ElementRange LocalUpdates::moved() const {
    return consensus::fragment_of(layout_.vector_count(), config_.fragments, global_step_);
}

void LocalUpdates::take(std::span<float> sum, std::span<float> changes, std::uint64_t samples) {
    if (since_step_ > 0) (void)inner_step();  // without it, too, the samples were computed
    std::fill(sum.begin(), sum.end(), 0.0f);
    std::fill(changes.begin(), changes.end(), 0.0f);
    const auto weight = static_cast<float>(samples);
    const consensus::ElementRange range = moved();
    const std::uint64_t parameters = layout_.parameters_count;
    for (std::uint64_t i = range.offset; i < std::min(range.end(), parameters); ++i) {
        sum[i] += weight * (start_[i] - here_[i]);
        start_[i] = here_[i];
    }
    const std::uint64_t end = range.end() - std::min(range.end(), parameters);
    for (std::uint64_t i = std::max(range.offset, parameters) - parameters; i < end; ++i) {
        changes[i] += weight * (buffers_[i] - start_buffers_[i]);
        start_buffers_[i] = buffers_[i];
    }
    since_start_ = 0;
}

void LocalUpdates::forget() {
    model_.forget_sum();
    here_ = start_;
    buffers_ = start_buffers_;
    since_step_ = 0;
    since_start_ = 0;
    not_finite_in_a_row_ = 0;
    if (lasting_ == InnerMoments::of_one_step) forget_moments();
    model_.load(here_, buffers_);
}

}  // namespace dedloc::train
