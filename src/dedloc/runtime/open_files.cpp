#include "dedloc/runtime/open_files.h"

#include <algorithm>
#include <limits>
#include <sys/resource.h>

namespace dedloc::runtime {

void raise_open_files() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = std::max(limit.rlim_cur, std::min<rlim_t>(limit.rlim_max, open_files_wanted));
    (void)::setrlimit(RLIMIT_NOFILE, &limit);
}

std::size_t open_files_allowed() {
    rlimit limit{};
    if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return std::numeric_limits<std::size_t>::max();
    return static_cast<std::size_t>(limit.rlim_cur);
}

}  // namespace dedloc::runtime
