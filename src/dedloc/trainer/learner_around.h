// A learner around another one, which does all the work: what changes something of it overrides
// only that.
//
// Thread, errors: as the learner's inside.

#pragma once
#include <memory>
#include <utility>

#include "dedloc/collab/learner.h"

namespace dedloc::trainer {

class LearnerAround : public collab::Learner {
  public:
    explicit LearnerAround(std::unique_ptr<collab::Learner> inside) : inside_(std::move(inside)) {}

    run::Layout layout() const override { return inside_->layout(); }
    void initial(std::span<float> parameters, std::span<float> buffers) override {
        inside_->initial(parameters, buffers);
    }
    void at_step(std::uint64_t step) override {
        step_ = step;
        inside_->at_step(step);
    }
    void limit_norm(double norm_max) override { inside_->limit_norm(norm_max); }
    void load(std::span<const float> parameters, std::span<const float> buffers) override {
        inside_->load(parameters, buffers);
    }
    void move_to(std::span<const float> parameters, std::span<const float> buffers) override {
        inside_->move_to(parameters, buffers);
    }
    Result<collab::GradientReport> accumulate(collab::CounterRange samples) override {
        return inside_->accumulate(samples);
    }
    void take(std::span<float> sum, std::span<float> buffers, std::uint64_t samples) override {
        inside_->take(sum, buffers, samples);
    }
    Result<void> compute_as(const PeerId& author) override { return inside_->compute_as(author); }
    bool depends_on_micro_batch() const override { return inside_->depends_on_micro_batch(); }
    Result<collab::Evaluation> evaluate() override { return inside_->evaluate(); }
    void cancel_evaluation() override { inside_->cancel_evaluation(); }

  protected:
    std::unique_ptr<collab::Learner> inside_;
    std::uint64_t step_ = 0;  // of what is loaded
};

}  // namespace dedloc::trainer
