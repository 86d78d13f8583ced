#include "dedloc/runtime/network.h"

#include <fmt/format.h>

namespace dedloc::runtime {

std::string SocketAddress::text() const {
    if (host.find(':') != std::string::npos) return fmt::format("[{}]:{}", host, port);
    return fmt::format("{}:{}", host, port);
}

}  // namespace dedloc::runtime
