#include "dedloc/runtime/machine.h"

#include <algorithm>
#include <cmath>
#include <condition_variable>
#include <execinfo.h>
#include <fstream>
#include <functional>
#include <limits>
#include <mutex>
#include <optional>
#include <sched.h>
#include <string>
#include <sys/resource.h>
#include <system_error>
#include <thread>
#include <vector>

#include "dedloc/runtime/memory_use.h"

namespace dedloc::runtime {

namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();
constexpr const char* all_groups = "/sys/fs/cgroup";
constexpr const char* own_groups = "/proc/self/cgroup";

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
template <typename Number = std::uint64_t>
std::optional<Number> number_in(const fs::path& path) {
    std::ifstream file(path);
    Number number = 0;
    if (file >> number) return number;
    return std::nullopt;
}

std::uint64_t bytes_of_files(const fs::path& folder, const GroupFiles& names) {
    std::ifstream file(folder / "memory.stat");
    std::uint64_t sum = 0;
    std::string name;
    for (std::uint64_t bytes = 0; file >> name >> bytes;)
        if (name == names.inactive_files || name == names.active_files) sum += bytes;
    return sum;
}

std::uint64_t memory_left_by_group(const fs::path& folder) {
    for (const GroupFiles& names : group_versions) {
        const auto limit = number_in(folder / names.limit);
        const auto used = number_in(folder / names.used);
        if (!limit || !used) continue;
        const std::uint64_t taken = *used - std::min(*used, bytes_of_files(folder, names));
        return *limit - std::min(*limit, taken);
    }
    return no_limit;
}

// 0: no quota.
double processors_by_group(const fs::path& folder) {
    std::ifstream file(folder / "cpu.max");  // "50000 100000", "max 100000"
    double quota = 0;
    double period = 0;
    if (file >> quota >> period && period > 0) return quota / period;
    const auto quota1 = number_in<std::int64_t>(folder / "cpu.cfs_quota_us");
    const auto period1 = number_in<std::int64_t>(folder / "cpu.cfs_period_us");
    if (!quota1 || !period1 || *quota1 <= 0 || *period1 <= 0) return 0;
    return static_cast<double>(*quota1) / static_cast<double>(*period1);
}

// Calls `look` with the folder of each group that this process is in, from its own outwards.
void for_each_group(const fs::path& groups,
                    const fs::path& own,
                    std::string_view wanted,
                    const std::function<void(const fs::path&)>& look) {
    std::ifstream file(own);
    // "0::/a/b" (version 2), "4:memory:/a/b", "3:cpu,cpuacct:/a"
    for (std::string line; std::getline(file, line);) {
        const std::size_t first = line.find(':');
        const std::size_t second = line.find(':', first + 1);
        if (first == std::string::npos || second == std::string::npos) continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        const bool is_wanted =
            ("," + controllers + ",").find("," + std::string(wanted) + ",") != std::string::npos;
        if (!controllers.empty() && !is_wanted) continue;
        std::vector<fs::path> roots(1, controllers.empty() ? groups : groups / controllers);
        if (controllers != wanted && !controllers.empty()) roots.push_back(groups / wanted);
        for (const fs::path& root : roots) {
            for (std::string path = line.substr(second + 1); !path.empty();) {
                look(root.string() + path);
                path.erase(path.rfind('/') == std::string::npos ? 0 : path.rfind('/'));
            }
            look(root);
        }
    }
}

}  // namespace

std::uint64_t memory_left_by_groups(const fs::path& groups, const fs::path& own) {
    std::uint64_t left = no_limit;
    for_each_group(groups, own, "memory", [&left](const fs::path& folder) {
        left = std::min(left, memory_left_by_group(folder));
    });
    return left;
}

std::uint64_t memory_in_use() { return kilobytes_in("/proc/self/status", "VmRSS:") * 1024; }

std::uint64_t memory_available() {
    const std::uint64_t machine = kilobytes_in("/proc/meminfo", "MemAvailable:") * 1024;
    const std::uint64_t left =
        std::min(machine == 0 ? no_limit : machine, memory_left_by_groups(all_groups, own_groups));
    return left == no_limit ? 0 : std::max<std::uint64_t>(left, 1);
}

std::uint64_t memory_allowed() {
    const std::uint64_t available = memory_available();
    return available == 0 ? 0 : available + memory_in_use();
}

double processors_by_groups(const fs::path& groups, const fs::path& own) {
    double least = 0;
    for_each_group(groups, own, "cpu", [&least](const fs::path& folder) {
        const double here = processors_by_group(folder);
        if (here > 0 && (least == 0 || here < least)) least = here;
    });
    return least;
}

std::size_t processors() { return std::max(1u, std::thread::hardware_concurrency()); }

std::size_t usable_processors() {
    std::size_t usable = processors();
    cpu_set_t mine;
    CPU_ZERO(&mine);
    if (::sched_getaffinity(0, sizeof mine, &mine) == 0)
        usable = std::min<std::size_t>(usable, std::max(1, CPU_COUNT(&mine)));
    const double quota = processors_by_groups(all_groups, own_groups);
    if (quota > 0) usable = std::min(usable, static_cast<std::size_t>(std::ceil(quota)));
    return std::max<std::size_t>(usable, 1);
}

// ---------------------------------------------------------------------------------------- threads

namespace {

// "the limit of threads is 64 (pids.max of its control group)"
std::string limits_of_threads() {
    std::string text;
    const auto add = [&text](std::uint64_t limit, const std::string& of) {
        text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", limit, of);
    };
    for_each_group(all_groups, own_groups, "pids", [&](const fs::path& folder) {
        if (const auto most = number_in(folder / "pids.max"))
            add(*most, (folder / "pids.max").string());
    });
    rlimit of_user{};
    if (::getrlimit(RLIMIT_NPROC, &of_user) == 0 && of_user.rlim_cur != RLIM_INFINITY)
        add(of_user.rlim_cur, "`ulimit -u`, for all of this user's programs");
    return text.empty() ? std::string("not known") : text;
}

}  // namespace

void load_unwinder() {
    void* frame = nullptr;
    (void)::backtrace(&frame, 1);
}

// Most systems give a thread so much; it counts as memory from the beginning.
constexpr std::uint64_t stack_bytes = 8u << 20;

Error no_more_threads() {
    if (!can_take_memory(stack_bytes))
        return make_error(
            ErrorKind::local_fault,
            "this process may not start another thread: the {} MiB of its stack are "
            "more memory than its limit leaves. Raise it (`ulimit -d`, `ulimit -v`, or "
            "a service's), or give fewer --threads",
            stack_bytes >> 20);
    return make_error(ErrorKind::local_fault,
                      "this process may not start another thread; the limit is {}. Raise it "
                      "(`ulimit -u`, docker --pids-limit, systemd TasksMax), or give fewer "
                      "--threads",
                      limits_of_threads());
}

Ok can_start_threads(std::size_t count) {
    std::mutex mutex;
    std::condition_variable over;
    bool is_over = false;
    std::vector<std::thread> threads;
    Ok outcome;
    const auto wait = [&] {
        std::unique_lock lock(mutex);
        over.wait(lock, [&] { return is_over; });
    };
    try {
        for (std::size_t i = 0; i < count; ++i) threads.emplace_back(wait);
    } catch (const std::system_error&) {
        outcome = no_more_threads();
    }
    {
        const std::lock_guard lock(mutex);
        is_over = true;
    }
    over.notify_all();
    for (std::thread& thread : threads) thread.join();
    return outcome;
}

}  // namespace dedloc::runtime
