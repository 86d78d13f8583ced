// Loaded before a peer's own libraries (LD_PRELOAD): its wall clock is wrong by the seconds that
// stand in the file DEDLOC_LEAP_FILE, from when they stand there. Other clocks are right.

#include <cstdlib>
#include <fcntl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

namespace {

long leap_seconds() {
    static const int file = [] {
        const char* const path = std::getenv("DEDLOC_LEAP_FILE");
        return path == nullptr ? -1 : ::open(path, O_RDONLY | O_CLOEXEC);
    }();
    char text[32] = {};
    if (file < 0 || ::pread(file, text, sizeof text - 1, 0) <= 0) return 0;
    return std::strtol(text, nullptr, 10);
}

}  // namespace

extern "C" int clock_gettime(clockid_t which, struct timespec* now) noexcept {
    const long failed = ::syscall(SYS_clock_gettime, which, now);
    if (failed == 0 && which == CLOCK_REALTIME) now->tv_sec += leap_seconds();
    return static_cast<int>(failed);
}
