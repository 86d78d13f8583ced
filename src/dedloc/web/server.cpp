#include "dedloc/web/server.h"

#include <algorithm>
#include <atomic>
#include <charconv>
#include <mutex>

#include "dedloc/monitor/json_line.h"
#include "dedloc/security/hash.h"
#include "dedloc/web/http_front.h"
#include "dedloc/web/metrics.h"
#include "dedloc/web/page_files.h"
#include "dedloc/web/sheets.h"
#include "dedloc/web/steady_seconds.h"
#include "dedloc/web/stream.h"

namespace dedloc::web {
namespace {

constexpr double news_wait_s = 0.5;
constexpr std::size_t token_bytes = 16;
// Jupyter, and the notebooks of Visual Studio Code. A frame without the token shows nothing.
constexpr const char* notebooks = "http://localhost:* http://127.0.0.1:* vscode-webview:";

std::optional<std::uint64_t> number_in(std::string_view text) {
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(text.begin(), text.end(), number);
    if (error != std::errc() || end != text.end() || text.empty()) return std::nullopt;
    return number;
}

void answer_error(httplib::Response& response, int status, std::string_view why) {
    const nlohmann::ordered_json json{{"ok", false}, {"error", why}};
    response.status = status;
    response.set_content(monitor::json_line(json), json_type);
}

}  // namespace

struct Server::State {
    State(RunStore& a_store, Actions some_actions, ServerOptions given)
        : store(a_store), actions(std::move(some_actions)), options(std::move(given)) {}

    void set_up();
    Ok bind();
    httplib::Server::HandlerResponse get(const httplib::Request& request,
                                         httplib::Response& response);
    bool get_api(const std::string& path,
                 const httplib::Request& request,
                 httplib::Response& response);
    void get_sheet(std::string_view name, httplib::Response& response) const;
    void stream(const httplib::Request& request, httplib::Response& response);
    void act(const Action& action, const httplib::Request& request, httplib::Response& response);

    RunStore& store;
    Actions actions;
    ServerOptions options;
    GatePolicy policy;
    httplib::Server http;
    std::mutex acting;
    std::atomic<std::size_t> viewers = 0;
    std::atomic<bool> closing = false;
    int port = 0;
    std::unique_ptr<ListeningThread> thread;
};

void Server::State::set_up() {
    set_up_http(http, body_bytes_max, options.in_notebooks ? notebooks : "'none'");
    http.set_pre_routing_handler(
        [this](const auto& request, auto& response) { return get(request, response); });
    for (const auto& [name, action] : actions)
        http.Post("/api/" + name, [this, &action](const auto& request, auto& response) {
            act(action, request, response);
        });
    answer_errors(http, answer_error, "a bug in dedloc's web server; its terminal says more");
}

Ok Server::State::bind() {
    policy = gate_policy(options.where, options.token);
    const WebAddress& where = options.where;
    const int usual_ports = options.is_default ? default_ports : 0;
    for (int i = 0; i < usual_ports && port == 0; ++i)
        port = bind_http(http, {where.host, default_port + i});
    if (port == 0) port = bind_http(http, {where.host, options.is_default ? 0 : where.port});
    if (port > 0) return {};
    return cannot_listen("the web page", where, "`--web 0`");
}

httplib::Server::HandlerResponse Server::State::get(const httplib::Request& request,
                                                    httplib::Response& response) {
    using enum httplib::Server::HandlerResponse;
    const auto refused = refusal_at(request, policy);
    if (refused) {
        answer_error(response, refused->status, refused->why);
        return Handled;
    }
    if (request.method == "POST") return Unhandled;
    if (const PageFile* file = page_file(request.path)) {
        send_file(*file, response);
        return Handled;
    }
    if (request.path == "/metrics") {
        response.set_content(metrics_text(store.sums()), "text/plain; version=0.0.4");
        return Handled;
    }
    constexpr std::string_view api = "/api/";
    const bool is_known = request.path.starts_with(api) &&
                          get_api(request.path.substr(api.size()), request, response);
    if (!is_known) answer_error(response, 404, "there is nothing at this address");
    return Handled;
}

bool Server::State::get_api(const std::string& path,
                            const httplib::Request& request,
                            httplib::Response& response) {
    const auto parameter = [&request](const char* name) {
        return number_in(request.get_param_value(name));
    };
    std::string json;
    if (path == "run") json = store.run_json();
    if (path == "peers") json = store.peers_json();
    if (path == "series") json = store.series_json();
    if (path == "rounds") json = store.rounds_json();
    if (path == "flows") json = store.flows_json();
    if (path == "events")
        json = store.events_json(
            parameter("after").value_or(0),
            std::min<std::uint64_t>(parameter("limit").value_or(256), kept_events_max));
    if (!json.empty()) {
        response.set_content(json, json_type);
        return true;
    }
    if (path == "stream") {
        stream(request, response);
        return true;
    }
    constexpr std::string_view sheets = "prompts/";
    if (!path.starts_with(sheets)) return false;
    get_sheet(std::string_view(path).substr(sheets.size()), response);
    return true;
}

void Server::State::get_sheet(std::string_view name, httplib::Response& response) const {
    const auto sheet = read_sheet(options.sheets_folder, name);
    if (!sheet) return answer_error(response, 404, sheet.error().message());
    response.set_content(sheet->bytes, std::string(sheet->content_type));
}

void Server::State::stream(const httplib::Request& request, httplib::Response& response) {
    if (viewers.fetch_add(1) >= viewers_max) {
        --viewers;
        return answer_error(
            response, 503, fmt::format("{} viewers look at this run already", viewers_max));
    }
    auto after = number_in(request.get_header_value("Last-Event-ID"));
    if (!after) after = number_in(request.get_param_value("after"));
    auto events = std::make_shared<EventStream>(store, after);
    const auto provide = [this, events](std::size_t, httplib::DataSink& sink) {
        const std::string text = events->take(steady_seconds());
        if (!text.empty() && !sink.write(text.data(), text.size())) return false;
        if (closing || events->is_over()) {
            sink.done();
            return true;
        }
        if (text.empty()) (void)store.wait_for_news(events->seen_changes(), news_wait_s);
        return true;
    };
    response.set_chunked_content_provider(
        "text/event-stream", provide, [this](bool) { --viewers; });
}

void Server::State::act(const Action& action,
                        const httplib::Request& request,
                        httplib::Response& response) {
    const auto body =
        nlohmann::ordered_json::parse(request.body, nullptr, /*allow_exceptions=*/false);
    if (!body.is_object()) return answer_error(response, 400, "the body is no JSON object");
    const std::lock_guard lock(acting);
    if (closing) return answer_error(response, 409, "the peer is ending");
    auto done = action(body);
    if (!done)
        return answer_error(response,
                            done.error().kind() == ErrorKind::bad_input ? 400 : 409,
                            done.error().message());
    nlohmann::ordered_json json{{"ok", true}};
    json.update(*done);
    response.set_content(monitor::json_line(json), json_type);
}

Server::Server(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<Server>> Server::start(RunStore& store,
                                              Actions actions,
                                              ServerOptions options) {
    if (options.token.empty()) options.token = new_token();
    auto state = std::make_unique<State>(store, std::move(actions), std::move(options));
    state->set_up();
    DEDLOC_TRY_VOID(state->bind());
    state->thread = std::make_unique<ListeningThread>(state->http);
    return std::unique_ptr<Server>(new Server(std::move(state)));
}

Server::~Server() {
    state_->closing = true;
    state_->thread.reset();
}

std::string Server::address() const {
    return fmt::format(
        "{}/?token={}", http_address(state_->options.where, state_->port), state_->options.token);
}

int Server::port() const { return state_->port; }

std::string new_token() { return base::to_hex(security::secure_random(token_bytes)); }

std::string token_in(std::string_view address) {
    constexpr std::string_view before = "?token=";
    const std::size_t at = address.find(before);
    if (at == std::string_view::npos) return {};
    const std::string_view token = address.substr(at + before.size(), 2 * token_bytes);
    const bool is_hex = token.size() == 2 * token_bytes &&
                        token.find_first_not_of("0123456789abcdef") == std::string_view::npos;
    return is_hex ? std::string(token) : std::string();
}

}  // namespace dedloc::web
