// Gate: which requests the web server answers. It listens on this machine, but every page that a
// browser here shows can send it requests: they are refused unless they come from its own page or
// carry its token (docs/spec/web.md).
//
//   Host           names this machine: a name of somebody else's that leads here is refused (DNS
//                  rebinding makes a strange page one of ours)
//   Origin         is ours where there is one
//   token          in a header; in the address as well where nothing is changed
//   POST           with JSON alone: a form of another page cannot send that
//
// Thread: any; pure.

#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace dedloc::web {

struct GatePolicy {
    std::string token;
    // No: on loopback programs of this machine need no token. Pages of other sites are refused all
    // the same.
    bool asks_token = true;
    bool on_loopback = true;             // it listens there and nowhere else
    std::vector<std::string> own_names;  // of this machine, beside addresses and localhost
};

struct Asked {
    std::string method;
    std::string path;
    std::string host;
    std::string origin;
    std::string fetch_site;     // Sec-Fetch-Site
    std::string authorization;  // the header's value
    std::string query_token;
    std::string content_type;
};

struct Refusal {
    int status = 0;
    std::string why;
};

// Nothing: the request may pass.
std::optional<Refusal> refusal_of(const Asked& asked, const GatePolicy& policy);

// Where to listen: "8470", "127.0.0.1:8470", "[::]:0".
struct WebAddress {
    std::string host = "127.0.0.1";
    int port = 0;  // 0: a free one

    bool is_loopback() const;
};
std::optional<WebAddress> parse_web_address(std::string_view text);

}  // namespace dedloc::web
