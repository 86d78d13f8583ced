// One HTTP request, for the few words that a cloud's metadata service says: no redirect is
// followed, no proxy asked, an answer is short and comes soon.
//
// Thread: fetch() one at a time; stop() any. Blocks for http_timeout_s at most in each of connect,
// write and read. Errors: bad_input (the address), peer_gone (no answer), peer_broke_protocol (too
// long an answer), cancelled (stop()).

#pragma once
#include <functional>
#include <map>
#include <mutex>
#include <string>

#include "dedloc/base/result.h"

namespace dedloc::fleet {

inline constexpr std::size_t http_body_bytes_max = 64 * 1024;
inline constexpr int http_timeout_s = 2;

struct HttpRequest {
    std::string address{};  // http://169.254.169.254, without a path
    std::string path = "/";
    std::map<std::string, std::string> headers{};
    bool puts = false;  // PUT without a body; else GET
};

struct HttpAnswer {
    int status = 0;
    std::string body{};
};

// "http://127.0.0.1:1338/latest" → the address, and the path, "/" where there is none.
Result<HttpRequest> split_url(std::string_view url);

class HttpFetch {
  public:
    Result<HttpAnswer> fetch(const HttpRequest& request);
    // The request that is under way ends at once, and no later one is sent.
    void stop();

  private:
    std::mutex mutex_;
    std::function<void()> abort_;  // of what is under way
    bool stopped_ = false;
};

}  // namespace dedloc::fleet
