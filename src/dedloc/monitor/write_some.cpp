#include "dedloc/monitor/write_some.h"

#include <cerrno>
#include <cstring>
#include <unistd.h>

namespace dedloc::monitor {

Error system_error() { return make_error(ErrorKind::local_fault, "{}", std::strerror(errno)); }

Ok write_some(int file, std::string_view& bytes) {
    while (!bytes.empty()) {
        const ssize_t written = ::write(file, bytes.data(), bytes.size());
        if (written < 0 && errno == EINTR) continue;
        if (written < 0) return system_error();
        bytes.remove_prefix(static_cast<std::size_t>(written));
    }
    return {};
}

}  // namespace dedloc::monitor
