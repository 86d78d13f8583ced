// A learner that errs on purpose, for tests and experiments of robust runs: the peer's own sums are
// multiplied by a factor between two steps; those of others it computes rightly.
//
// Thread, errors: as the learner's inside.

#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <utility>

#include "dedloc/trainer/learner_around.h"

namespace dedloc::trainer {

inline constexpr float sign_flip_factor = -1000;

class ScaledLearner final : public LearnerAround {
  public:
    struct Error {
        float factor = 1;
        std::uint64_t from_step = 0;
        std::uint64_t until_step = std::numeric_limits<std::uint64_t>::max();
    };
    ScaledLearner(std::unique_ptr<collab::Learner> inside, PeerId self, Error error)
        : LearnerAround(std::move(inside)), self_(self), author_(std::move(self)), error_(error) {}

    void take(std::span<float> sum, std::span<float> buffers, std::uint64_t samples) override {
        inside_->take(sum, buffers, samples);
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

}  // namespace dedloc::trainer
