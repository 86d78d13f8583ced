// A model around another one, which does all the work: what errs on purpose, or watches, overrides
// only that. ScaledModel multiplies the peer's own sums by a factor between two steps; those of
// others it computes rightly.
//
// Thread, errors: as the model's inside.

#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "dedloc/train/model.h"

namespace dedloc::lab {

class ModelAround : public train::SampledModel {
  public:
    explicit ModelAround(std::unique_ptr<train::SampledModel> inside)
        : inside_(std::move(inside)) {}

    run::Layout layout() const override { return inside_->layout(); }
    void load(std::span<const float> parameters, std::span<const float> buffers) override {
        inside_->load(parameters, buffers);
    }
    void store(std::span<float> parameters, std::span<float> buffers) const override {
        inside_->store(parameters, buffers);
    }
    void take_sum(std::span<float> sum) override { inside_->take_sum(sum); }
    void take_buffers(std::span<float> changes, double scale) override {
        inside_->take_buffers(changes, scale);
    }
    void forget_sum() override { inside_->forget_sum(); }

    void at_step(std::uint64_t step) override {
        step_ = step;
        inside_->at_step(step);
    }
    void limit_norm(double norm_max) override { inside_->limit_norm(norm_max); }
    Result<train::GradientReport> accumulate(collab::CounterRange samples) override {
        return inside_->accumulate(samples);
    }
    Result<void> compute_as(const PeerId& author) override { return inside_->compute_as(author); }
    bool depends_on_micro_batch() const override { return inside_->depends_on_micro_batch(); }
    Result<collab::Evaluation> evaluate() override { return inside_->evaluate(); }
    void cancel_evaluation() override { inside_->cancel_evaluation(); }

  protected:
    std::unique_ptr<train::SampledModel> inside_;
    std::uint64_t step_ = 0;  // of what is loaded
};

inline constexpr float sign_flip_factor = -1000;

class ScaledModel final : public ModelAround {
  public:
    struct Error {
        float factor = 1;
        std::uint64_t from_step = 0;
        std::uint64_t until_step = std::numeric_limits<std::uint64_t>::max();
    };
    ScaledModel(std::unique_ptr<train::SampledModel> inside, PeerId self, Error error)
        : ModelAround(std::move(inside)), self_(self), author_(std::move(self)), error_(error) {}

    void take_sum(std::span<float> sum) override {
        inside_->take_sum(sum);
        if (author_ != self_ || step_ < error_.from_step || step_ >= error_.until_step) return;
        for (float& value : sum) value *= error_.factor;
    }
    Result<void> compute_as(const PeerId& author) override {
        author_ = author;
        return inside_->compute_as(author);
    }

  private:
    PeerId self_;
    PeerId author_;
    Error error_;
};

}  // namespace dedloc::lab
