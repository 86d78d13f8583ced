#include "experiments/replayable.h"

namespace dedloc::lab {
namespace {

// Empty: nothing.
std::string_view private_part(const run::RunFile& run) {
    if (run.fragments() > 1)
        return "with local.fragments a contribution has local steps since its fragment was moved, "
               "several states ago";
    if (run.local) return "with [local] a contribution is made of its peer's own steps";
    if (run.averaging.is_sparse())
        return "with this averaging.codec a contribution has what its peer had not sent before";
    if (run.averaging.delayed)
        return "with averaging.delayed no certificate says at which state a sample was computed";
    if (run.batch.micro == run::micro_auto)
        return "with batch.micro = \"auto\" each peer cuts its samples in its own way";
    return {};
}

}  // namespace

Ok check_replayable(const run::RunFile& run) {
    const std::string_view why = private_part(run);
    if (why.empty()) return {};
    return make_error(ErrorKind::bad_input,
                      "the run '{}' cannot be computed again from its certificates: {}",
                      run.name,
                      why);
}

}  // namespace dedloc::lab
