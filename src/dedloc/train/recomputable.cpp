#include "dedloc/train/recomputable.h"

namespace dedloc::train {

Ok check_recomputable(const run::RunFile& run, Samples& samples, const PeerId& self) {
    if (!run.is_checked()) return {};
    if (samples.depends_on_micro_batch() && run.batch.micro == run::micro_auto)
        return make_error(ErrorKind::bad_input,
                          "[robust] needs a number for 'batch.micro': gradients of this model "
                          "depend on how samples are cut into micro-batches (it has BatchNorm), "
                          "and with \"auto\" every peer cuts them otherwise, so that nobody could "
                          "check anybody's");
    if (const Result<void> able = samples.compute_as(self); !able)
        return make_error(ErrorKind::bad_input, "[robust]: {}", able.error().message());
    return {};
}

}  // namespace dedloc::train
