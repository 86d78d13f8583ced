// Server: the web page of a run, its interface, and /metrics, over HTTP (docs/spec/web.md), on
// threads of its own. It answers what gate.h lets pass, and never asks anybody anything.
//
//   DEDLOC_TRY(auto server, Server::start(store, actions, options));
//   say(server->address());       // http://127.0.0.1:8470/?token=…
//
// Limits: viewers_max streams at once; those beyond them are refused. Bodies of body_bytes_max. The
// rest: http_front.h.
//
// Errors of start: local_fault (the port is taken). Lifetime: the store outlives it; the destructor
// ends streams, waits for its threads (some seconds at most) and for an action under way.

#pragma once
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "dedloc/base/result.h"
#include "dedloc/web/gate.h"
#include "dedloc/web/run_store.h"

namespace dedloc::web {

inline constexpr int default_port = 8470;
inline constexpr int default_ports = 16;  // tried, from that one on; then any
inline constexpr std::size_t viewers_max = 64;
inline constexpr std::size_t body_bytes_max = 4096;

// Runs on a thread of the server, one at a time. A value: what the answer holds beside "ok".
using Action = std::function<Result<nlohmann::ordered_json>(const nlohmann::ordered_json& body)>;
using Actions = std::map<std::string, Action>;  // by the last part of the path

struct ServerOptions {
    WebAddress where{};
    bool is_default = true;       // of `where`: no port was asked for, another free one will do
    std::string token{};          // 32 hex digits; empty: a new one
    std::string sheets_folder{};  // of what prompts become (sheets.h); empty: none
    bool in_notebooks = false;    // pages of this machine's notebooks may show it in a frame
};

class Server {
  public:
    static Result<std::unique_ptr<Server>> start(RunStore& store,
                                                 Actions actions,
                                                 ServerOptions options);
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    // For a browser on this machine, token included.
    std::string address() const;
    int port() const;

    struct State;

  private:
    explicit Server(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

std::string new_token();
// "http://…/?token=TOKEN" has it; empty: it does not.
std::string token_in(std::string_view address);

}  // namespace dedloc::web
