#include "dedloc/cli/memory.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <optional>
#include <string>

namespace dedloc::cli {
namespace {

constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();

// "MemAvailable:   15830132 kB"
std::uint64_t kilobytes_in(const char* path, const std::string& name) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);)
        if (line.starts_with(name)) return std::stoull(line.substr(name.size()));
    return 0;
}

// How the two versions of control groups call the same.
struct GroupFiles {
    const char* limit;
    const char* used;
    const char* inactive_files;
    const char* active_files;
};
constexpr GroupFiles group_versions[] = {
    {"memory.max", "memory.current", "inactive_file", "active_file"},
    {"memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file", "total_active_file"}};

// Nothing also for "max".
std::optional<std::uint64_t> bytes_in(const std::filesystem::path& path) {
    std::ifstream file(path);
    std::uint64_t bytes = 0;
    if (file >> bytes) return bytes;
    return std::nullopt;
}

std::uint64_t bytes_of_files(const std::filesystem::path& folder, const GroupFiles& names) {
    std::ifstream file(folder / "memory.stat");
    std::uint64_t sum = 0;
    std::string name;
    for (std::uint64_t bytes = 0; file >> name >> bytes;)
        if (name == names.inactive_files || name == names.active_files) sum += bytes;
    return sum;
}

std::uint64_t memory_left_by_group(const std::filesystem::path& folder) {
    for (const GroupFiles& names : group_versions) {
        const auto limit = bytes_in(folder / names.limit);
        const auto used = bytes_in(folder / names.used);
        if (!limit || !used) continue;
        const std::uint64_t taken = *used - std::min(*used, bytes_of_files(folder, names));
        return *limit - std::min(*limit, taken);
    }
    return no_limit;
}

}  // namespace

std::uint64_t memory_left_by_groups(const std::filesystem::path& groups,
                                    const std::filesystem::path& own) {
    std::uint64_t left = no_limit;
    std::ifstream file(own);
    // "0::/a/b" (version 2), "4:memory:/a/b"
    for (std::string line; std::getline(file, line);) {
        const std::size_t first = line.find(':');
        const std::size_t second = line.find(':', first + 1);
        if (first == std::string::npos || second == std::string::npos) continue;
        const std::string controller = line.substr(first + 1, second - first - 1);
        if (!controller.empty() && controller != "memory") continue;
        const auto root = controller.empty() ? groups : groups / controller;
        for (std::string path = line.substr(second + 1); !path.empty();) {
            left = std::min(left, memory_left_by_group(root.string() + path));
            path.erase(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
        }
        left = std::min(left, memory_left_by_group(root));
    }
    return left;
}

std::uint64_t memory_in_use() { return kilobytes_in("/proc/self/status", "VmRSS:") * 1024; }

std::uint64_t memory_available() {
    const std::uint64_t machine = kilobytes_in("/proc/meminfo", "MemAvailable:") * 1024;
    const std::uint64_t left =
        std::min(machine == 0 ? no_limit : machine,
                 memory_left_by_groups("/sys/fs/cgroup", "/proc/self/cgroup"));
    return left == no_limit ? 0 : std::max<std::uint64_t>(left, 1);
}

trainer::MicroBatchOptions micro_batch_options(const collab::RunFile& run) {
    const std::uint64_t available = memory_available();
    const std::uint64_t inner_batch = run.local ? run.local->batch : 0;
    return {.samples_max = trainer::micro_batch_max(run.batch.target, inner_batch),
            .bytes_max = available == 0 ? 0 : memory_in_use() + available / 2};
}

}  // namespace dedloc::cli
