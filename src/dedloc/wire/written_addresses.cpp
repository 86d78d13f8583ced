#include "dedloc/wire/written_addresses.h"

#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

#include "dedloc/wire/multiaddr.h"

namespace dedloc::wire {
namespace {

struct HostAndPort {
    std::string host;  // IPv6 in brackets; empty: only the port was said
    std::uint16_t port = 0;
};

std::optional<HostAndPort> host_and_port(const std::string& text) {
    const auto colon = text.rfind(':');
    HostAndPort parts{.host = colon == std::string::npos ? std::string() : text.substr(0, colon)};
    const std::string port = colon == std::string::npos ? text : text.substr(colon + 1);
    const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), parts.port);
    if (error != std::errc() || end != port.data() + port.size()) return std::nullopt;
    return parts;
}

Result<std::string> if_multiaddr(std::string text) {
    DEDLOC_TRY_VOID(Multiaddr::from_text(text));
    return text;
}

std::string multiaddr_text(const HostAndPort& parts) {
    const std::string& host = parts.host;
    if (host.starts_with("[") && host.ends_with("]"))
        return fmt::format("/ip6/{}/tcp/{}", host.substr(1, host.size() - 2), parts.port);
    const bool anywhere = host.empty() || host == "*";
    return fmt::format("/ip4/{}/tcp/{}", anywhere ? "0.0.0.0" : host, parts.port);
}

Result<std::string> listen_address(const std::string& text) {
    if (text.starts_with("/")) return if_multiaddr(text);
    if (const auto parts = host_and_port(text))
        if (auto address = if_multiaddr(multiaddr_text(*parts))) return address;
    return make_error(ErrorKind::bad_input,
                      "'{}' is no address to listen on; write an IP address of this machine and a "
                      "port: 0.0.0.0:4001 (all its IPv4 addresses), '[::]:4001', 127.0.0.1:0 (this "
                      "machine alone, any free port), a multiaddr (/ip4/0.0.0.0/tcp/4001), or none",
                      text);
}

Result<std::string> announced_address(const std::string& text) {
    if (text.starts_with("/")) return if_multiaddr(text);
    const auto parts = host_and_port(text);
    if (!parts || parts->host.empty() || parts->port == 0)
        return make_error(ErrorKind::bad_input,
                          "'{}' is no address that others could dial; write "
                          "/ip4/203.0.113.7/tcp/4001, 203.0.113.7:4001 or example.org:4001",
                          text);
    DEDLOC_TRY(const auto address, Multiaddr::tcp(parts->host, parts->port));
    return address.text();
}

}  // namespace

Result<std::vector<std::string>> listen_addresses(const std::vector<std::string>& written) {
    std::vector<std::string> addresses;
    for (const std::string& text : written) {
        if (text == "none") continue;
        DEDLOC_TRY(std::string address, listen_address(text));
        addresses.push_back(std::move(address));
    }
    return addresses;
}

Result<std::vector<std::string>> announced_addresses(const std::vector<std::string>& written) {
    std::vector<std::string> addresses;
    for (const std::string& text : written) {
        DEDLOC_TRY(std::string address, announced_address(text));
        addresses.push_back(std::move(address));
    }
    return addresses;
}

}  // namespace dedloc::wire
