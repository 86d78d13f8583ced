#include "dedloc/train/called_samples.h"

#include <utility>

namespace dedloc::train {

CalledSamples::CalledSamples(Model& model, LoopCalls calls, const PeerId& self)
    : model_(model), calls_(std::move(calls)), author_(self) {}

Result<GradientReport> CalledSamples::accumulate(collab::CounterRange samples) {
    model_.forget_gradient();
    DEDLOC_TRY(const double mean_loss, calls_.compute(author_, samples));
    DEDLOC_TRY_VOID(model_.check());
    if (!model_.has_gradient())
        return make_error(ErrorKind::bad_input,
                          "the function that computes samples left no gradient: it makes a forward "
                          "and a backward pass of the model that joined");
    return add_gradient(model_, samples.size(), mean_loss, norm_max_);
}

Result<void> CalledSamples::compute_as(const PeerId& author) {
    if (!calls_.compute) return Samples::compute_as(author);
    author_ = author;
    return {};
}

Result<collab::Evaluation> CalledSamples::evaluate() { return calls_.evaluate(); }

}  // namespace dedloc::train
