#include "dedloc/fleet/http_fetch.h"

#include <algorithm>
#include <httplib.h>

namespace dedloc::fleet {
namespace {

constexpr std::string_view scheme = "http://";
constexpr std::size_t url_bytes_max = 1024;

bool is_visible(std::string_view text) {
    return std::all_of(text.begin(), text.end(), [](char c) { return c > 32 && c < 127; });
}

}  // namespace

Result<HttpRequest> split_url(std::string_view url) {
    if (!url.starts_with(scheme) || url.size() > url_bytes_max || !is_visible(url))
        return make_error(ErrorKind::bad_input,
                          "an address begins with http:// and has no blanks: "
                          "http://169.254.169.254/path");
    const std::string_view rest = url.substr(scheme.size());
    const std::size_t slash = std::min(rest.find('/'), rest.size());
    if (slash == 0 || rest.find('@') < slash)
        return make_error(ErrorKind::bad_input, "an address names a machine: http://HOST:PORT");
    HttpRequest request;
    request.address = std::string(scheme) + std::string(rest.substr(0, slash));
    if (slash < rest.size()) request.path = std::string(rest.substr(slash));
    return request;
}

Result<HttpAnswer> HttpFetch::fetch(const HttpRequest& request) {
    httplib::Client client(request.address);
    if (!client.is_valid())
        return make_error(ErrorKind::bad_input, "{} is no address", request.address);
    client.set_connection_timeout(http_timeout_s);
    client.set_read_timeout(http_timeout_s);
    client.set_write_timeout(http_timeout_s);
    client.set_follow_location(false);
    {
        const std::lock_guard lock(mutex_);
        if (stopped_) return make_error(ErrorKind::cancelled, "stopped");
        abort_ = [&client] { client.stop(); };
    }
    HttpAnswer answer;
    bool is_long = false;
    httplib::Request sent;
    sent.method = request.puts ? "PUT" : "GET";
    sent.path = request.path;
    sent.headers.insert(request.headers.begin(), request.headers.end());
    sent.content_receiver = [&](const char* data, std::size_t size, std::uint64_t, std::uint64_t) {
        is_long = answer.body.size() + size > http_body_bytes_max;
        if (!is_long) answer.body.append(data, size);
        return !is_long;
    };
    const httplib::Result done = client.send(sent);
    const std::lock_guard lock(mutex_);
    abort_ = nullptr;
    if (stopped_) return make_error(ErrorKind::cancelled, "stopped");
    if (is_long)
        return make_error(
            ErrorKind::peer_broke_protocol, "{} answers at too great length", request.address);
    if (!done)
        return make_error(ErrorKind::peer_gone,
                          "{} does not answer ({})",
                          request.address,
                          httplib::to_string(done.error()));
    answer.status = done->status;
    return answer;
}

void HttpFetch::stop() {
    const std::lock_guard lock(mutex_);
    stopped_ = true;
    if (abort_) abort_();
}

}  // namespace dedloc::fleet
