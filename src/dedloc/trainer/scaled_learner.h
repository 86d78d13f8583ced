// A learner that errs on purpose, for tests and experiments of robust runs: the peer's own sums are
// multiplied by a factor between two steps; those of others it computes rightly.
//
// Thread, errors: as the learner's inside.

#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "dedloc/collab/learner.h"

namespace dedloc::trainer {

inline constexpr float sign_flip_factor = -1000;

class ScaledLearner final : public collab::Learner {
  public:
    struct Error {
        float factor = 1;
        std::uint64_t from_step = 0;
        std::uint64_t until_step = std::numeric_limits<std::uint64_t>::max();
    };
    ScaledLearner(std::unique_ptr<collab::Learner> inside, PeerId self, Error error)
        : inside_(std::move(inside)), self_(self), author_(std::move(self)), error_(error) {}

    collab::Layout layout() const override { return inside_->layout(); }
    void initial(std::span<float> parameters, std::span<float> buffers) override {
        inside_->initial(parameters, buffers);
    }
    void limit_norm(double norm_max) override { inside_->limit_norm(norm_max); }
    void at_step(std::uint64_t step) override {
        step_ = step;
        inside_->at_step(step);
    }
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
        if (author_ != self_ || step_ < error_.from_step || step_ >= error_.until_step) return;
        for (float& value : sum) value *= error_.factor;
    }
    Result<void> compute_as(const PeerId& author) override {
        author_ = author;
        return inside_->compute_as(author);
    }
    bool depends_on_micro_batch() const override { return inside_->depends_on_micro_batch(); }
    Result<collab::Evaluation> evaluate() override { return inside_->evaluate(); }
    void cancel_evaluation() override { inside_->cancel_evaluation(); }

  private:
    std::unique_ptr<collab::Learner> inside_;
    PeerId self_;
    PeerId author_;
    Error error_;
    std::uint64_t step_ = 0;
};

}  // namespace dedloc::trainer
