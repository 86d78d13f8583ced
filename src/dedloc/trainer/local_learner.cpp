#include "dedloc/trainer/local_learner.h"

#include <algorithm>
#include <utility>

#include "dedloc/base/check.h"
#include "dedloc/tensor/kernels.h"

namespace dedloc::trainer {

namespace {

constexpr int not_finite_least =
    3;  // in a row, until inner steps are given up: one may be bad samples

}  // namespace

LocalLearner::LocalLearner(std::unique_ptr<collab::Learner> inside, run::LocalConfig config)
    : inside_(std::move(inside)),
      config_(std::move(config)),
      layout_(inside_->layout()),
      buffers_(layout_.buffers_count),
      buffers_change_(layout_.buffers_count),
      gradient_(layout_.parameters_count),
      moments_(optim::moments_count(config_.optimizer),
               std::vector<float>(layout_.parameters_count)) {
    DEDLOC_CHECK(config_.batch > 0);
}

void LocalLearner::initial(std::span<float> parameters, std::span<float> buffers) {
    inside_->initial(parameters, buffers);
}

void LocalLearner::at_step(std::uint64_t global_step) {
    global_step_ = global_step;
    inside_->at_step(global_step);
}

void LocalLearner::begin_at(std::span<const float> parameters, std::span<const float> buffers) {
    start_.assign(parameters.begin(), parameters.end());
    here_ = start_;
    start_buffers_.assign(buffers.begin(), buffers.end());
    buffers_ = start_buffers_;
    since_start_ = 0;
    since_step_ = 0;
    not_finite_in_a_row_ = 0;
}

void LocalLearner::load(std::span<const float> parameters, std::span<const float> buffers) {
    begin_at(parameters, buffers);
    samples_before_ = 0;
    inside_->load(parameters, buffers);
}

void LocalLearner::move_to(std::span<const float> parameters, std::span<const float> buffers) {
    if (since_step_ > 0) (void)inner_step();  // what it could not use is gone either way
    if (since_start_ > 0) {
        if (samples_before_ == 0) {
            pseudo_gradient_before_.assign(layout_.parameters_count, 0.0f);
            buffers_before_.assign(layout_.buffers_count, 0.0f);
        }
        add_pseudo_gradient(since_start_, pseudo_gradient_before_, buffers_before_);
        samples_before_ += since_start_;
    }
    begin_at(parameters, buffers);
    inside_->move_to(parameters, buffers);
}

Result<collab::GradientReport> LocalLearner::accumulate(collab::CounterRange samples) {
    DEDLOC_TRY(const collab::GradientReport report, inside_->accumulate(samples));
    if (!report.finite) {
        turn_back_if_lost();
        return report;
    }
    not_finite_in_a_row_ = 0;
    since_step_ += samples.size();
    since_start_ += samples.size();
    if (since_step_ < config_.batch || inner_step()) return report;
    since_start_ -= samples.size();
    return collab::GradientReport{.finite = false};
}

// On what has been accumulated. False: nothing came of it.
bool LocalLearner::inner_step() {
    const std::uint64_t samples = std::exchange(since_step_, 0);
    inside_->take(gradient_, buffers_change_, 1);
    tensor::add_weighted(buffers_, buffers_change_, 1.0f);
    // A sum of finite gradients may still not be finite.
    if (!tensor::all_finite(gradient_)) return false;
    const auto divisor = static_cast<float>(samples);
    for (float& element : gradient_) element /= divisor;
    const std::vector<std::span<float>> moments(moments_.begin(), moments_.end());
    optim::step(
        optimizer_for(samples), layout_.parameters, inner_steps_, here_, gradient_, moments);
    const bool sound = is_finite();
    if (sound)
        ++inner_steps_;
    else
        forget_inner_steps();
    inside_->move_to(here_, buffers_);
    return sound;
}

// With the learning rate of this global step, whatever number the inner step has.
optim::OptimizerConfig LocalLearner::optimizer_for(std::uint64_t samples) const {
    const double share =
        std::min(1.0, static_cast<double>(samples) / static_cast<double>(config_.batch));
    const double rate = optim::learning_rate(config_.optimizer.schedule, global_step_);
    optim::OptimizerConfig optimizer = config_.optimizer;
    optimizer.schedule = {.kind = optim::ScheduleKind::constant, .peak = rate * share};
    return optimizer;
}

bool LocalLearner::is_finite() const {
    return tensor::all_finite(here_) && tensor::all_finite(buffers_) &&
           std::all_of(moments_.begin(), moments_.end(), [](const std::vector<float>& moment) {
               return tensor::all_finite(moment);
           });
}

// Their samples count as computed, and bring nothing.
void LocalLearner::forget_inner_steps() {
    here_ = start_;
    buffers_ = start_buffers_;
    for (std::vector<float>& moment : moments_) std::fill(moment.begin(), moment.end(), 0.0f);
    inner_steps_ = 0;
}

// At the start itself there is no other place to go.
void LocalLearner::turn_back_if_lost() {
    if (++not_finite_in_a_row_ < not_finite_least) return;
    not_finite_in_a_row_ = 0;
    if (here_ == start_) return;
    forget_inner_steps();
    since_step_ = 0;
    inside_->load(here_, buffers_);  // without what it has accumulated
}

void LocalLearner::add_pseudo_gradient(std::uint64_t samples,
                                       std::span<float> sum,
                                       std::span<float> buffers) const {
    const auto weight = static_cast<float>(samples);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += weight * (start_[i] - here_[i]);
    for (std::size_t i = 0; i < buffers.size(); ++i)
        buffers[i] += weight * (buffers_[i] - start_buffers_[i]);
}

void LocalLearner::take(std::span<float> gradient_sum,
                        std::span<float> buffers_sum,
                        std::uint64_t samples) {
    if (since_step_ > 0) (void)inner_step();  // without it, too, the samples were computed
    DEDLOC_CHECK(samples >= samples_before_);
    std::fill(gradient_sum.begin(), gradient_sum.end(), 0.0f);
    std::fill(buffers_sum.begin(), buffers_sum.end(), 0.0f);
    if (samples_before_ > 0) {
        std::copy(
            pseudo_gradient_before_.begin(), pseudo_gradient_before_.end(), gradient_sum.begin());
        std::copy(buffers_before_.begin(), buffers_before_.end(), buffers_sum.begin());
    }
    add_pseudo_gradient(samples - samples_before_, gradient_sum, buffers_sum);
    start_ = here_;
    start_buffers_ = buffers_;
    since_start_ = 0;
    samples_before_ = 0;
}

std::unique_ptr<collab::Learner> trainers_learner(const run::RunFile& run,
                                                  std::unique_ptr<collab::Learner> learner) {
    if (!run.local) return learner;
    return std::make_unique<LocalLearner>(std::move(learner), *run.local);
}

}  // namespace dedloc::trainer
