#include "dedloc/train/accumulation.h"

#include "dedloc/replica/model_state.h"
#include "dedloc/train/local_updates.h"

namespace dedloc::train {

void GradientSum::begin_at(const state::Snapshot& state) {
    forget();
    model_.load(replica::parameters_of(state), replica::buffers_of(state));
}

// Buffers start from the new state's, or peers would drift apart; what the samples so far made of
// the old state's is handed over beside that.
void GradientSum::move_to(const state::Snapshot& state) {
    const std::span<const float> buffers = replica::buffers_of(state);
    if (here_ > 0) {
        std::vector<float> changes(buffers.size());
        model_.take_buffers(changes, static_cast<double>(here_));
        if (elsewhere_ == 0) changes_elsewhere_.assign(buffers.size(), 0.0f);
        for (std::size_t i = 0; i < changes.size(); ++i) changes_elsewhere_[i] += changes[i];
        elsewhere_ += here_;
        here_ = 0;
    }
    model_.load(replica::parameters_of(state), buffers);
}

bool GradientSum::added(std::uint64_t samples) {
    here_ += samples;
    return true;
}

void GradientSum::take(std::span<float> sum, std::span<float> changes, std::uint64_t samples) {
    model_.take(sum, changes, samples - elsewhere_);
    if (elsewhere_ > 0)
        for (std::size_t i = 0; i < changes.size(); ++i) changes[i] += changes_elsewhere_[i];
    here_ = 0;
    elsewhere_ = 0;
}

void GradientSum::forget() {
    model_.forget_sum();
    here_ = 0;
    elsewhere_ = 0;
}

std::unique_ptr<Accumulation> make_accumulation(const std::optional<run::LocalConfig>& local,
                                                bool is_checked,
                                                Model& model) {
    const InnerMoments moments = is_checked ? InnerMoments::of_one_step : InnerMoments::kept;
    if (local) return std::make_unique<LocalUpdates>(model, *local, moments);
    return std::make_unique<GradientSum>(model);
}

}  // namespace dedloc::train
