#include "dedloc/api/server.h"

#include <chrono>

#include "dedloc/api/answers.h"
#include "dedloc/api/page_files.h"
#include "dedloc/base/bytes.h"
#include "dedloc/images/picture.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/security/hash.h"
#include "dedloc/web/http_front.h"

namespace dedloc::api {
namespace {

// How soon a connection sees that its client is gone, or that the server ends.
constexpr std::chrono::milliseconds look_time{100};
constexpr std::size_t id_bytes = 12;
constexpr const char* events_type = "text/event-stream";
constexpr const char* last_event = "data: [DONE]\n\n";

std::int64_t unix_seconds() {
    return std::chrono::duration_cast<std::chrono::seconds>(
               std::chrono::system_clock::now().time_since_epoch())
        .count();
}

void send_json(httplib::Response& response, const Json& json) {
    response.set_content(monitor::json_line(json), web::json_type);
}

void refuse(httplib::Response& response,
            int status,
            std::string_view why,
            std::string_view code = {}) {
    response.status = status;
    send_json(response, error_answer(status, why, code));
}

bool send_text(httplib::DataSink& sink, const std::string& text) {
    return text.empty() || sink.write(text.data(), text.size());
}

// Base64 with padding: RFC 4648 §4.
std::string base64_of(ByteView bytes) {
    std::string text = base::to_base64url(bytes);
    for (char& letter : text) letter = letter == '-' ? '+' : letter == '_' ? '/' : letter;
    text.resize((text.size() + 3) / 4 * 4, '=');
    return text;
}

// TextAnswer: a text that grows. Its connection's thread calls send() until the text is over.
class TextAnswer {
  public:
    TextAnswer(std::shared_ptr<TextJob> job,
               AnswerHead head,
               bool streams,
               bool counts,
               std::uint64_t prompt_tokens)
        : job_(std::move(job)),
          head_(std::move(head)),
          streams_(streams),
          counts_(counts),
          sums_{.prompt = prompt_tokens} {}

    // Sends what was added. No: the client is gone, or the text was cancelled.
    bool send(httplib::DataSink& sink) {
        const TextJob::Taken taken = job_->take(look_time);
        if (job_->is_cancelled() || !sink.is_writable()) return false;
        whole_ += streams_ ? std::string() : taken.text;
        sums_.written = taken.tokens;
        if (taken.failure) return send_failure(sink, *taken.failure);
        if (streams_ && !send_pieces(sink, taken)) return false;
        if (!taken.is_over) return true;
        if (!streams_ && !send_text(sink, whole_answer(taken.finish_reason))) return false;
        sink.done();
        return true;
    }

  private:
    bool send_pieces(httplib::DataSink& sink, const TextJob::Taken& taken) {
        std::string events;
        if (!taken.text.empty()) events = piece(taken.text, {});
        if (taken.is_over) {
            events += piece({}, taken.finish_reason);
            if (counts_) events += server_event(counts_piece(head_, sums_));
            events += last_event;
        }
        return send_text(sink, events);
    }
    std::string piece(std::string_view text, std::string_view finish_reason) {
        return server_event(
            text_piece(head_, text, finish_reason, std::exchange(is_first_, false)));
    }
    std::string whole_answer(std::string_view finish_reason) const {
        return monitor::json_line(whole_text(head_, whole_, finish_reason, sums_));
    }
    // The body tells of a failure, as the status was sent before it.
    bool send_failure(httplib::DataSink& sink, const Error& failure) const {
        const Json told = error_answer(500, failure.message(), {});
        const bool sent = send_text(sink, streams_ ? server_event(told) : monitor::json_line(told));
        sink.done();
        return sent;
    }

    std::shared_ptr<TextJob> job_;
    AnswerHead head_;
    bool streams_;
    bool counts_;
    Counts sums_;
    std::string whole_;
    bool is_first_ = true;
};

}  // namespace

struct Server::State {
    State(ServedFacts some_facts, ServedState a_state, ServerOptions given)
        : facts(std::move(some_facts)),
          options(std::move(given)),
          current(std::make_shared<const ServedState>(std::move(a_state))) {}

    void set_up();
    Ok bind();
    std::shared_ptr<const ServedState> state() const {
        const std::lock_guard lock(mutex);
        return current;
    }
    Json model_json() const;
    httplib::Server::HandlerResponse look_at(const httplib::Request& request,
                                             httplib::Response& response) const;
    std::optional<nlohmann::json> body_of(const httplib::Request& request,
                                          httplib::Response& response) const;
    std::optional<std::uint64_t> tokens_of(const std::string& prompt,
                                           const ServedState& with,
                                           httplib::Response& response) const;
    bool push(const std::shared_ptr<Job>& job, httplib::Response& response);
    void write(Form form, const httplib::Request& request, httplib::Response& response);
    void draw(const httplib::Request& request, httplib::Response& response);

    const ServedFacts facts;
    const ServerOptions options;
    const std::int64_t begun = unix_seconds();
    web::GatePolicy policy;
    httplib::Server http;
    int port = 0;
    mutable std::mutex mutex;
    std::shared_ptr<const ServedState> current;
    Queue queue{waiting_max};
    std::unique_ptr<web::ListeningThread> thread;
};

void Server::State::set_up() {
    web::set_up_http(http, body_bytes_max);
    http.set_pre_routing_handler(
        [this](const auto& request, auto& response) { return look_at(request, response); });
    http.Post("/v1/completions", [this](const auto& request, auto& response) {
        write(Form::completion, request, response);
    });
    http.Post("/v1/chat/completions", [this](const auto& request, auto& response) {
        write(Form::chat, request, response);
    });
    http.Post("/v1/images/generations",
              [this](const auto& request, auto& response) { draw(request, response); });
    web::answer_errors(
        http,
        [](auto& response, int status, std::string_view why) { refuse(response, status, why); },
        "a bug in dedloc's server; its terminal says more");
}

Ok Server::State::bind() {
    policy = web::gate_policy(options.where, options.token);
    policy.asks_token = !policy.on_loopback;
    port = web::bind_http(http, options.where);
    if (port > 0) return {};
    return web::cannot_listen("the model", options.where, "--port 0");
}

Json Server::State::model_json() const {
    const auto now = state();
    return {{"id", facts.model},
            {"object", "model"},
            {"created", begun},
            {"owned_by", "dedloc"},
            {"dedloc",
             {{"kind", facts.writes_text ? "text" : "pictures"},
              {"step", now->step},
              {"fingerprint", now->fingerprint},
              {"context", now->generator->context()},
              {"follows", facts.follows}}}};
}

httplib::Server::HandlerResponse Server::State::look_at(const httplib::Request& request,
                                                        httplib::Response& response) const {
    using enum httplib::Server::HandlerResponse;
    if (const auto refused = web::refusal_at(request, policy)) {
        refuse(response,
               refused->status,
               refused->why,
               refused->status == 401 ? "invalid_api_key" : "");
        return Handled;
    }
    if (request.method == "POST") return Unhandled;
    constexpr std::string_view models = "/v1/models";
    if (const web::PageFile* file = web::page_file(request.path, page_files()))
        web::send_file(*file, response);
    else if (request.path == models)
        send_json(response, {{"object", "list"}, {"data", Json::array({model_json()})}});
    else if (request.path == fmt::format("{}/{}", models, facts.model))
        send_json(response, model_json());
    else
        refuse(response, 404, "there is nothing at this address");
    return Handled;
}

// Nothing: the request was refused.
std::optional<nlohmann::json> Server::State::body_of(const httplib::Request& request,
                                                     httplib::Response& response) const {
    auto body = parse_body(request.body);
    const auto model = body ? model_of(*body) : Result<std::string>(body.error());
    if (!model) {
        refuse(response, 400, model.error().message());
        return std::nullopt;
    }
    if (!model->empty() && *model != facts.model) {
        refuse(
            response,
            404,
            fmt::format("there is no model '{}' here; this server has '{}'", *model, facts.model),
            "model_not_found");
        return std::nullopt;
    }
    return *std::move(body);
}

// Nothing: the prompt was refused, as the model cannot take it.
std::optional<std::uint64_t> Server::State::tokens_of(const std::string& prompt,
                                                      const ServedState& with,
                                                      httplib::Response& response) const {
    const auto counted = with.generator->prompt_tokens(prompt);
    if (counted) return *counted;
    refuse(response,
           400,
           counted.error().message(),
           facts.writes_text ? "context_length_exceeded" : "");
    return std::nullopt;
}

bool Server::State::push(const std::shared_ptr<Job>& job, httplib::Response& response) {
    if (queue.push(job)) return true;
    const int seconds = queue.seconds_until_room();
    response.set_header("Retry-After", std::to_string(seconds));
    refuse(response,
           429,
           fmt::format("{} requests wait already; ask again in {} s", waiting_max, seconds),
           "rate_limit_exceeded");
    return false;
}

void Server::State::write(Form form, const httplib::Request& asked, httplib::Response& response) {
    if (!facts.writes_text)
        return refuse(
            response, 404, "this model draws: its pictures are at /v1/images/generations");
    const auto body = body_of(asked, response);
    if (!body) return;
    auto request = text_request(*body, form);
    if (!request) return refuse(response, 400, request.error().message());
    const auto with = state();
    const auto prompt_tokens = tokens_of(request->write.prompt, *with, response);
    if (!prompt_tokens) return;
    const bool streams = request->streams;
    const bool counts_in_stream = request->counts_in_stream;
    const auto job = std::make_shared<TextJob>(with, *std::move(request));
    if (!push(job, response)) return;
    const char* kind = form == Form::chat ? "chatcmpl-" : "cmpl-";
    AnswerHead head{.form = form,
                    .id = kind + base::to_hex(security::secure_random(id_bytes)),
                    .created = unix_seconds(),
                    .model = facts.model,
                    .fingerprint = with->fingerprint};
    const auto answer = std::make_shared<TextAnswer>(
        job, std::move(head), streams, counts_in_stream, *prompt_tokens);
    response.set_chunked_content_provider(
        streams ? events_type : web::json_type,
        [answer](std::size_t, httplib::DataSink& sink) { return answer->send(sink); },
        [this, job](bool) { queue.forget(job); });
}

void Server::State::draw(const httplib::Request& asked, httplib::Response& response) {
    if (facts.writes_text)
        return refuse(response, 404, "this model writes: its texts are at /v1/completions");
    const auto body = body_of(asked, response);
    if (!body) return;
    auto request = picture_request(*body);
    if (!request) return refuse(response, 400, request.error().message());
    const auto with = state();
    if (!tokens_of(request->prompts.front(), *with, response)) return;
    const auto job = std::make_shared<PictureJob>(with, *std::move(request));
    if (!push(job, response)) return;
    const auto send = [job](std::size_t, httplib::DataSink& sink) {
        const auto drawn = job->take(look_time);
        if (job->is_cancelled() || !sink.is_writable()) return false;
        if (!drawn) return true;
        std::vector<std::string> encoded;
        if (*drawn)
            for (const images::Picture& picture : (*drawn)->pictures)
                encoded.push_back(base64_of(images::encode_png(images::shown_large(picture))));
        const Json told = *drawn ? pictures(unix_seconds(), encoded, (*drawn)->remarks)
                                 : error_answer(500, drawn->error().message(), {});
        const bool sent = send_text(sink, monitor::json_line(told));
        sink.done();
        return sent;
    };
    response.set_chunked_content_provider(
        web::json_type, send, [this, job](bool) { queue.forget(job); });
}

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<Server>> Server::start(ServedFacts facts,
                                              ServedState served,
                                              ServerOptions options) {
    auto state = std::make_unique<State>(std::move(facts), std::move(served), std::move(options));
    state->set_up();
    DEDLOC_TRY_VOID(state->bind());
    state->thread = std::make_unique<web::ListeningThread>(state->http);
    return std::unique_ptr<Server>(new Server(std::move(state)));
}

// Connections end when what they wait for is cancelled.
Server::~Server() {
    state_->queue.end();
    state_->thread.reset();
}

void Server::set_state(ServedState state) {
    auto next = std::make_shared<const ServedState>(std::move(state));
    const std::lock_guard lock(state_->mutex);
    state_->current = std::move(next);
}

std::string Server::origin() const {
    return web::http_address(state_->options.where, state_->port);
}

std::string Server::address() const {
    return state_->policy.on_loopback
               ? origin() + "/"
               : fmt::format("{}/?token={}", origin(), state_->options.token);
}

int Server::port() const { return state_->port; }

}  // namespace dedloc::api
