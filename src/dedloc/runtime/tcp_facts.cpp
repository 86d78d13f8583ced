// On its own because the kernel's header, which has all fields, and the C library's, which Asio
// includes, define the same names.

#include "dedloc/runtime/tcp_facts.h"

#include <chrono>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace dedloc::runtime {

std::optional<Duration> least_round_trip(int socket) {
    tcp_info info{};
    socklen_t size = sizeof info;
    if (::getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) != 0) return std::nullopt;
    // The kernel's word for "none yet" is all bits set.
    if (info.tcpi_min_rtt == 0 || info.tcpi_min_rtt == ~0U) return std::nullopt;
    return std::chrono::microseconds(info.tcpi_min_rtt);
}

}  // namespace dedloc::runtime
