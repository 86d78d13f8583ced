#include "dedloc/cli/memory.h"

#include <fstream>
#include <string>

namespace dedloc::cli {
namespace {

// "MemAvailable:   15830132 kB"
std::uint64_t kilobytes_in(const char* path, const std::string& name) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);)
        if (line.starts_with(name)) return std::stoull(line.substr(name.size()));
    return 0;
}

}  // namespace

std::uint64_t memory_in_use() { return kilobytes_in("/proc/self/status", "VmRSS:") * 1024; }
std::uint64_t memory_available() { return kilobytes_in("/proc/meminfo", "MemAvailable:") * 1024; }

train::MicroBatchOptions micro_batch_options(const collab::RunFile& run) {
    const std::uint64_t available = memory_available();
    const std::uint64_t inner_batch = run.local ? run.local->batch : 0;
    return {.samples_max = train::micro_batch_max(run.batch.target, inner_batch),
            .bytes_max = available == 0 ? 0 : memory_in_use() + available / 2};
}

}  // namespace dedloc::cli
