#include "dedloc/train/model.h"

namespace dedloc::train {

Result<void> Samples::compute_as(const PeerId&) {
    return make_error(ErrorKind::cannot_compute,
                      "this task cannot compute another peer's samples again: write 'check = 0' "
                      "into the run file's [robust], and no gradients are checked");
}

GradientReport add_gradient(Model& model,
                            std::uint64_t samples,
                            double mean_loss,
                            double norm_max_of_one) {
    if (!model.is_sound(norm_max_of_mean(norm_max_of_one, samples))) {
        model.leave_out();
        return {.finite = false};
    }
    model.add(static_cast<double>(samples));
    return {.loss_sum = mean_loss * static_cast<double>(samples)};
}

}  // namespace dedloc::train
