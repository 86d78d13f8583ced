#include "dedloc/web/gate.h"

#include <algorithm>
#include <arpa/inet.h>
#include <charconv>

#include "dedloc/base/bytes.h"
#include "dedloc/security/hash.h"

namespace dedloc::web {
namespace {

constexpr std::string_view bearer = "Bearer ";

// "localhost:8470" without its port; "[::1]" without brackets. Nothing: it is no host.
std::optional<std::string> name_in(std::string_view host) {
    if (host.starts_with('[')) {
        const std::size_t end = host.find(']');
        if (end == std::string_view::npos) return std::nullopt;
        return std::string(host.substr(1, end - 1));
    }
    const std::size_t colon = host.find(':');
    if (colon != std::string_view::npos && host.find(':', colon + 1) != std::string_view::npos)
        return std::nullopt;
    std::string name(host.substr(0, colon));
    std::ranges::transform(name, name.begin(), [](char letter) {
        return letter >= 'A' && letter <= 'Z' ? static_cast<char>(letter - 'A' + 'a') : letter;
    });
    if (name.empty()) return std::nullopt;
    return name;
}

bool is_address(const std::string& name) {
    unsigned char bytes[16];
    return ::inet_pton(AF_INET, name.c_str(), bytes) == 1 ||
           ::inet_pton(AF_INET6, name.c_str(), bytes) == 1;
}

bool leads_to_loopback(const std::string& name) {
    return name == "localhost" || name == "::1" || (name.starts_with("127.") && is_address(name));
}

// Nobody can make an address lead elsewhere than it says.
bool is_own_host(const std::string& host, const GatePolicy& policy) {
    const auto name = name_in(host);
    if (!name) return false;
    if (leads_to_loopback(*name)) return true;
    return !policy.on_loopback &&
           (is_address(*name) ||
            std::ranges::find(policy.own_names, *name) != policy.own_names.end());
}

bool holds_nothing_of_the_run(const Asked& asked) {
    return asked.method != "POST" && !asked.path.starts_with("/api/") &&
           !asked.path.starts_with("/v1/") && asked.path != "/metrics";
}

bool needs_token(const Asked& asked, const GatePolicy& policy) {
    if (!policy.on_loopback) return true;
    return policy.asks_token && (asked.path != "/metrics" || asked.method == "POST");
}

bool is_token(std::string_view given, const GatePolicy& policy) {
    return !policy.token.empty() &&
           security::equal_in_constant_time(as_bytes(given), as_bytes(policy.token));
}

bool has_token(const Asked& asked, const GatePolicy& policy) {
    const std::string_view authorization = asked.authorization;
    if (authorization.starts_with(bearer))
        return is_token(authorization.substr(bearer.size()), policy);
    return asked.method != "POST" && is_token(asked.query_token, policy);
}

}  // namespace

std::optional<Refusal> refusal_of(const Asked& asked, const GatePolicy& policy) {
    if (!is_own_host(asked.host, policy))
        return Refusal{421,
                       "this server does not answer to the name in the Host header; open the "
                       "address that dedloc printed"};
    if (!asked.origin.empty() && asked.origin != "http://" + asked.host)
        return Refusal{403, "another site's page may not ask this server"};
    if (asked.method != "GET" && asked.method != "HEAD" && asked.method != "POST")
        return Refusal{405, "only GET and POST are answered"};
    if (holds_nothing_of_the_run(asked)) return std::nullopt;
    if (asked.fetch_site == "cross-site")
        return Refusal{403, "another site's page may not ask this server"};
    if (needs_token(asked, policy) && !has_token(asked, policy))
        return Refusal{401,
                       "the token is missing or wrong: open the address that dedloc printed, or "
                       "send it as 'Authorization: Bearer TOKEN'"};
    if (asked.method == "POST" && !asked.content_type.starts_with("application/json"))
        return Refusal{415, "a POST here has Content-Type: application/json"};
    return std::nullopt;
}

bool WebAddress::is_loopback() const { return leads_to_loopback(host); }

std::optional<WebAddress> parse_web_address(std::string_view text) {
    WebAddress address;
    const std::size_t colon = text.rfind(':');
    std::string_view port = text;
    if (colon != std::string_view::npos) {
        auto host = name_in(text.substr(0, colon));
        if (!host || (!is_address(*host) && *host != "localhost")) return std::nullopt;
        address.host = *std::move(host);
        port = text.substr(colon + 1);
    }
    const auto [end, error] = std::from_chars(port.begin(), port.end(), address.port);
    if (error != std::errc() || end != port.end() || port.empty()) return std::nullopt;
    if (address.port < 0 || address.port > 65535) return std::nullopt;
    return address;
}

}  // namespace dedloc::web
