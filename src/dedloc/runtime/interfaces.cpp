#include "dedloc/runtime/interfaces.h"

#include <asio/ip/udp.hpp>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

namespace dedloc::runtime {

bool is_bridge(const char* interface) {
    return ::access(fmt::format("/sys/class/net/{}/bridge", interface).c_str(), F_OK) == 0;
}

Result<std::string> address_of_default_route() {
    using asio::ip::udp;
    const udp::endpoint anywhere(asio::ip::make_address_v4("192.0.2.1"), 9);
    const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (socket < 0) return make_error(ErrorKind::local_fault, "no socket");
    udp::endpoint here;
    auto size = static_cast<socklen_t>(here.capacity());
    const auto anywhere_size = static_cast<socklen_t>(anywhere.size());
    const bool is_known = ::connect(socket, anywhere.data(), anywhere_size) == 0 &&
                          ::getsockname(socket, here.data(), &size) == 0;
    ::close(socket);
    return is_known ? here.address().to_string() : std::string();
}

}  // namespace dedloc::runtime
