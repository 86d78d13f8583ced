// Processor time, for the benchmarks and their anchors.

#pragma once
#include <sys/resource.h>

namespace dedloc::bench {

// User and system time of this process so far.
inline double cpu_seconds() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace dedloc::bench
