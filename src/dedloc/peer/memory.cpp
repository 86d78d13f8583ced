#include "dedloc/peer/memory.h"

namespace dedloc::peer {

train::MicroBatchOptions micro_batch_options(const run::RunFile& run) {
    const std::uint64_t available = memory_available();
    const std::uint64_t inner_batch = run.local ? run.local->batch : 0;
    return {.samples_max = train::micro_batch_max(run.batch.target, inner_batch),
            .bytes_max = available == 0 ? 0 : memory_in_use() + available / 2};
}

}  // namespace dedloc::peer
