#include "tests/sim/local_peer.h"

#include <utility>

#include "dedloc/base/check.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/train/vector_model.h"

namespace dedloc::lab {

class LocalPeer::LocalModel final : public train::VectorModel {
  public:
    LocalModel(const run::Layout& layout, AddGradient add_gradient)
        : VectorModel(layout, std::vector<float>(layout.parameters_count)),
          add_gradient_(std::move(add_gradient)) {}

    Result<train::GradientReport> accumulate(collab::CounterRange samples) override {
        add_gradient_(samples, parameters(), sum());
        return train::GradientReport{.loss_sum = static_cast<double>(samples.size())};
    }
    Result<collab::Evaluation> evaluate() override { return collab::Evaluation{}; }
    std::span<const float> here() const { return parameters(); }

  private:
    AddGradient add_gradient_;
};

LocalPeer::LocalPeer(const run::Layout& layout,
                     const std::optional<run::LocalConfig>& local,
                     AddGradient add_gradient,
                     Complain complain)
    : complain_(std::move(complain)),
      model_(std::make_unique<LocalModel>(layout, std::move(add_gradient))),
      accumulation_(train::make_accumulation(local, *model_)) {}

LocalPeer::~LocalPeer() = default;

void LocalPeer::begin_at(const state::Snapshot& state) {
    accumulation_->begin_at(state);
    const std::span<const float> parameters = replica::parameters_of(state);
    start_.assign(parameters.begin(), parameters.end());
}

void LocalPeer::move_to(const state::Snapshot& state) {
    const std::vector<float> before(model_->here().begin(), model_->here().end());
    accumulation_->move_to(state);
    const std::span<const float> newer = replica::parameters_of(state);
    for (std::size_t i = 0; i < newer.size(); ++i) {
        if (model_->here()[i] == newer[i] + (before[i] - start_[i])) continue;
        complain_("what was done beside a round is not done again from the state that came of it");
        break;
    }
    start_.assign(newer.begin(), newer.end());
}

void LocalPeer::compute(consensus::CounterRange samples) {
    (void)model_->accumulate(samples);
    DEDLOC_CHECK(accumulation_->added(samples.size()), "a bowl's gradients are finite");
}

void LocalPeer::take(std::span<float> sum, std::uint64_t samples) {
    accumulation_->take(sum, {}, samples);
    const auto weight = static_cast<float>(samples);
    for (std::size_t i = 0; i < sum.size(); ++i) {
        if (sum[i] == weight * (start_[i] - model_->here()[i])) continue;
        complain_("what is handed in is not the way that was gone since the last global step");
        break;
    }
    start_.assign(model_->here().begin(), model_->here().end());
}

}  // namespace dedloc::lab
