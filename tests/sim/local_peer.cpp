#include "tests/sim/local_peer.h"

#include <algorithm>
#include <utility>

#include "dedloc/base/check.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/train/recompute.h"
#include "dedloc/train/vector_model.h"

namespace dedloc::lab {

class LocalPeer::LocalModel final : public train::VectorModel {
  public:
    LocalModel(const run::Layout& layout, const PeerId& self, AddGradient add_gradient)
        : VectorModel(layout, std::vector<float>(layout.parameters_count)),
          author_(self),
          add_gradient_(std::move(add_gradient)) {}

    void at_step(std::uint64_t global_step) override { step_ = global_step; }
    Result<void> compute_as(const PeerId& author) override {
        author_ = author;
        return {};
    }
    Result<train::GradientReport> accumulate(collab::CounterRange samples) override {
        add_gradient_(author_, step_, samples, parameters(), sum());
        return train::GradientReport{.loss_sum = static_cast<double>(samples.size())};
    }
    Result<collab::Evaluation> evaluate() override { return collab::Evaluation{}; }
    std::span<const float> here() const { return parameters(); }

  private:
    PeerId author_;
    std::uint64_t step_ = 0;
    AddGradient add_gradient_;
};

LocalPeer::LocalPeer(const run::Layout& layout,
                     const run::RunFile& run,
                     const PeerId& self,
                     AddGradient add_gradient,
                     Complain complain)
    : complain_(std::move(complain)),
      model_(std::make_unique<LocalModel>(layout, self, std::move(add_gradient))),
      accumulation_(train::make_accumulation(run.local, run.is_checked(), *model_)),
      fragments_(run.fragments()),
      micro_batch_(run.batch.micro) {}

LocalPeer::~LocalPeer() = default;

void LocalPeer::begin_at(const state::Snapshot& state) {
    step_ = state.step();
    model_->at_step(step_);
    accumulation_->begin_at(state);
    const std::span<const float> parameters = replica::parameters_of(state);
    start_.assign(parameters.begin(), parameters.end());
}

void LocalPeer::move_to(const state::Snapshot& state) {
    const std::vector<float> before(model_->here().begin(), model_->here().end());
    step_ = state.step();
    model_->at_step(step_);
    accumulation_->move_to(state);
    const std::span<const float> newer = replica::parameters_of(state);
    for (std::size_t i = 0; i < newer.size(); ++i) {
        const bool stays = newer[i] == start_[i];  // to the bit, as fragments do
        const float there = stays ? before[i] : newer[i] + (before[i] - start_[i]);
        if (model_->here()[i] == there) continue;
        complain_("what was done beside a round is not done again from the state that came of it");
        break;
    }
    start_.assign(newer.begin(), newer.end());
}

void LocalPeer::compute(consensus::CounterRange samples) {
    (void)model_->accumulate(samples);
    DEDLOC_CHECK(accumulation_->added(samples.size()), "a bowl's gradients are finite");
}

Result<validation::CheckResult> LocalPeer::again(const validation::CheckJob& job) {
    auto result = train::recompute(*model_, *model_, *accumulation_, job, micro_batch_);
    return result;
}

void LocalPeer::take(std::span<float> sum, std::uint64_t samples) {
    accumulation_->take(sum, {}, samples);
    const auto weight = static_cast<float>(samples);
    const consensus::ElementRange moved = consensus::fragment_of(sum.size(), fragments_, step_);
    for (std::size_t i = 0; i < sum.size(); ++i) {
        const bool is_moved = i >= moved.offset && i < moved.end();
        if (sum[i] == (is_moved ? weight * (start_[i] - model_->here()[i]) : 0.0f)) continue;
        complain_("what is handed in is not the way that was gone since it was moved last");
        break;
    }
    std::copy_n(model_->here().begin() + static_cast<std::ptrdiff_t>(moved.offset),
                moved.count,
                start_.begin() + static_cast<std::ptrdiff_t>(moved.offset));
}

}  // namespace dedloc::lab
