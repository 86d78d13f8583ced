// Server: a model behind HTTP, for programs in the form that clients of OpenAI's interface write,
// and for people as a page to type in (docs/serve-api.md).
//
//   DEDLOC_TRY(auto server, Server::start(facts, state, {.where = {.port = 8490}}));
//   say(server->address());                 // http://127.0.0.1:8490/
//   server->set_state(newer);               // requests from now on are answered by it
//
//   GET  /v1/models, /v1/models/NAME        the model, and at which step it is
//   POST /v1/completions, /v1/chat/completions      of a model that writes
//   POST /v1/images/generations             of a model that draws
//
// The model answers one request at a time. At most waiting_max requests wait for their turn; a
// request beyond them gets status 429 with Retry-After. A text ends when its client goes away. Who
// may ask: web/gate.h; on loopback no token is needed.
//
// Limits: bodies of body_bytes_max; request.h; web/http_front.h. Errors of start: local_fault (the
// port is taken). Lifetime: the destructor ends what is being written, and waits for its threads.
// Thread: any.

#pragma once
#include <memory>
#include <string>

#include "dedloc/api/jobs.h"
#include "dedloc/base/result.h"
#include "dedloc/web/gate.h"

namespace dedloc::api {

inline constexpr std::size_t body_bytes_max = 1u << 20;
inline constexpr std::size_t waiting_max = 8;  // requests, beside the one that is answered

struct ServedFacts {
    std::string model;        // the run's name
    bool writes_text = true;  // else it draws
    bool follows = false;     // a run that goes on: the state changes
};

struct ServerOptions {
    web::WebAddress where{};
    std::string token{};  // needed where others' machines can ask; 32 hex digits
};

class Server {
  public:
    static Result<std::unique_ptr<Server>> start(ServedFacts facts,
                                                 ServedState state,
                                                 ServerOptions options);
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    void set_state(ServedState state);
    std::string origin() const;   // "http://127.0.0.1:8490"
    std::string address() const;  // for a browser; with the token where one is needed
    int port() const;

    struct State;

  private:
    explicit Server(std::unique_ptr<State> state);
    std::unique_ptr<State> state_;
};

}  // namespace dedloc::api
