#include "dedloc/runtime/congestion_control.h"

#include <cerrno>
#include <fmt/format.h>
#include <fstream>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "dedloc/runtime/real.h"

namespace dedloc::runtime {

int set_congestion_control(int socket, const std::string& name) {
    const auto size = static_cast<socklen_t>(name.size());
    return ::setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, name.data(), size) == 0 ? 0 : errno;
}

Ok may_use_congestion_control(const std::string& name) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int failed = socket < 0 ? errno : set_congestion_control(socket, name);
    if (socket >= 0) ::close(socket);
    if (failed == 0) return {};
    const bool forbidden = failed == EPERM;
    std::string names;
    std::getline(std::ifstream(forbidden ? "/proc/sys/net/ipv4/tcp_allowed_congestion_control"
                                         : "/proc/sys/net/ipv4/tcp_available_congestion_control"),
                 names);
    return make_error(ErrorKind::bad_input,
                      "{} congestion control \"{}\"; {}: {}",
                      forbidden ? "only root may use" : "this system has no",
                      name,
                      forbidden ? "everybody may use" : "it has",
                      names);
}

}  // namespace dedloc::runtime
