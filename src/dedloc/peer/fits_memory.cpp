#include "dedloc/peer/fits_memory.h"

#include <algorithm>

#include "dedloc/replica/kept_averages.h"

namespace dedloc::peer {

std::uint64_t memory_needed(const tasks::MemoryEstimate& of_one_sample, MemoryUse use) {
    if (of_one_sample.total() == 0) return 0;
    if (use == MemoryUse::evaluation) return of_one_sample.model;
    const std::uint64_t kept =
        std::min<std::uint64_t>(of_one_sample.collaboration, replica::kept_averages_usual);
    return of_one_sample.total() - kept;
}

Ok check_fits(const tasks::TrainingTask& task, MemoryUse use, std::uint64_t available) {
    // A task on another device does not use this machine's memory, and of that nothing is known.
    const bool on_cpu = task.device() == "cpu";
    const std::uint64_t needed = on_cpu ? memory_needed(task.memory(1), use) : 0;
    if (available == 0 || needed <= available) return {};
    constexpr double gib = 1024.0 * 1024 * 1024;
    return make_error(ErrorKind::cannot_compute,
                      "{} takes at least {:.1f} GiB of memory, and this machine, or what limits "
                      "this program on it, has {:.1f} GiB left; make the model smaller, or take a "
                      "larger machine",
                      task.description(),
                      static_cast<double>(needed) / gib,
                      static_cast<double>(available) / gib);
}

}  // namespace dedloc::peer
