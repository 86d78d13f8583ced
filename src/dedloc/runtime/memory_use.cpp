#include "dedloc/runtime/memory_use.h"

#include <algorithm>
#include <fstream>
#include <string>
#include <sys/mman.h>

namespace dedloc::runtime {

namespace {

constexpr const char* own_status = "/proc/self/status";

// "RssAnon:     15832 kB"
std::uint64_t status_bytes(std::string_view name) {
    std::ifstream file(own_status);
    for (std::string line; std::getline(file, line);)
        if (line.starts_with(name)) return std::stoull(line.substr(name.size())) << 10;
    return 0;
}

// From now on the kernel's high-water mark is of what comes.
bool forget_high_water() {
    std::ofstream file("/proc/self/clear_refs");
    file << "5" << std::flush;
    return file.good();
}

}  // namespace

OwnMemory own_memory() {
    return {.resident = status_bytes("RssAnon:"), .data = status_bytes("VmData:")};
}

bool can_take_memory(std::uint64_t bytes) {
    void* const taken = ::mmap(
        nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (taken == MAP_FAILED) return false;
    (void)::munmap(taken, bytes);
    return true;
}

std::uint64_t most_memory_during(const std::function<void()>& work) {
    const bool marked = forget_high_water();
    const std::uint64_t before = status_bytes("VmRSS:");
    work();
    const std::uint64_t after = status_bytes(marked ? "VmHWM:" : "VmRSS:");
    return after - std::min(after, before);
}

}  // namespace dedloc::runtime
