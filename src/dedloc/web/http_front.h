// HTTP servers of dedloc share this (server.h; api/server.h): threads, sockets, headers that let
// nothing else into a page, the gate before every request, and the address for people.
//
//   set_up_http(http, body_bytes_max);
//   http.set_pre_routing_handler(… refusal_at(request, policy) …);
//   answer_errors(http, answer, "a bug …");
//   const int port = bind_http(http, where);
//   ListeningThread thread(http);            // until its destructor
//
// Only for files that see httplib (CMakeLists.txt): it is large, and has macros that all must set.
//
// Limits: connections_max connections at once; what comes beyond them waits in the system's queue.
// A reader that takes nothing for write_timeout_s is let go. Thread: the owner's.

#pragma once
#include <httplib.h>
#include <string>
#include <thread>

#include "dedloc/base/result.h"
#include "dedloc/web/gate.h"
#include "dedloc/web/page_files.h"

namespace dedloc::web {

inline constexpr std::size_t connections_max = 96;
inline constexpr int write_timeout_s = 3;
inline constexpr const char* json_type = "application/json; charset=utf-8";

// `frames`: pages that may show ours within them, as a Content-Security-Policy names them.
void set_up_http(httplib::Server& http,
                 std::size_t body_bytes_max,
                 const std::string& frames = "'none'");

// Answers requests that no handler answers, and those that a handler fails at: `answer` writes a
// status and a sentence. `of_a_bug`: the sentence where a handler failed.
using AnswerError = void (*)(httplib::Response& response, int status, std::string_view why);
void answer_errors(httplib::Server& http, AnswerError answer, const char* of_a_bug);

// Takes the port of `where`, or any where that is 0. Returns it; 0: there is none.
int bind_http(httplib::Server& http, const WebAddress& where);
// Tells people that bind_http() found none. `what`: is not served; `option`: asks for a free port.
Error cannot_listen(std::string_view what, const WebAddress& where, std::string_view option);

// Makes the policy of a server that listens at `where`. `token` empty: nobody is let in.
GatePolicy gate_policy(const WebAddress& where, std::string token);
std::optional<Refusal> refusal_at(const httplib::Request& request, const GatePolicy& policy);

void send_file(const PageFile& file, httplib::Response& response);

// "http://127.0.0.1:8470": for a browser on this machine; where all addresses are listened at, this
// machine's name.
std::string http_address(const WebAddress& where, int port);

// Serves a server that is bound, and ends it.
class ListeningThread {
  public:
    explicit ListeningThread(httplib::Server& http);
    ~ListeningThread();
    ListeningThread(const ListeningThread&) = delete;
    ListeningThread& operator=(const ListeningThread&) = delete;

  private:
    httplib::Server& http_;
    std::thread thread_;
};

}  // namespace dedloc::web
