#include "dedloc/runtime/network.h"

#include <fmt/format.h>

namespace dedloc::runtime {

std::string SocketAddress::text() const {
    if (host.find(':') != std::string::npos) return fmt::format("[{}]:{}", host, port);
    return fmt::format("{}:{}", host, port);
}

Task<Result<std::unique_ptr<Connection>>> Network::connect_from(std::uint16_t,
                                                                SocketAddress address,
                                                                TimePoint deadline) {
    return connect(std::move(address), deadline);
}

}  // namespace dedloc::runtime
