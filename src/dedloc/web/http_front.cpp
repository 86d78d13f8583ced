#include "dedloc/web/http_front.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>

namespace dedloc::web {
namespace {

constexpr int keep_alive_s = 1;
constexpr int read_timeout_s = 2;
constexpr std::size_t waiting_connections_max = 32;
constexpr const char* content_policy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; font-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors ";

// Each connection has a thread of its own, as a stream keeps one for as long as somebody watches;
// the first connection starts the first thread. The thread that accepts waits while all are at work
// and enough connections wait.
class ConnectionThreads final : public httplib::TaskQueue {
  public:
    void enqueue(std::function<void()> work) override {
        std::unique_lock lock(mutex_);
        room_.wait(lock, [this] { return closing_ || waiting_.size() < waiting_connections_max; });
        waiting_.push_back(std::move(work));
        if (waiting_.size() > idle_ && threads_.size() < connections_max)
            threads_.emplace_back([this] { serve(); });
        work_.notify_one();
    }
    void shutdown() override {
        {
            const std::lock_guard lock(mutex_);
            closing_ = true;
        }
        work_.notify_all();
        room_.notify_all();
        for (std::thread& thread : threads_) thread.join();
    }

  private:
    void serve() {
        std::unique_lock lock(mutex_);
        while (true) {
            ++idle_;
            work_.wait(lock, [this] { return closing_ || !waiting_.empty(); });
            --idle_;
            if (waiting_.empty()) return;
            const std::function<void()> work = std::move(waiting_.front());
            waiting_.pop_front();
            room_.notify_one();
            lock.unlock();
            work();
            lock.lock();
        }
    }

    std::mutex mutex_;
    std::condition_variable work_;
    std::condition_variable room_;
    std::deque<std::function<void()>> waiting_;
    std::vector<std::thread> threads_;
    std::size_t idle_ = 0;
    bool closing_ = false;
};

std::string own_host_name() {
    char name[256] = {};
    if (::gethostname(name, sizeof name - 1) != 0) return {};
    std::string text = name;
    std::ranges::transform(text, text.begin(), [](unsigned char letter) {
        return static_cast<char>(std::tolower(letter));
    });
    return text;
}

}  // namespace

void set_up_http(httplib::Server& http, std::size_t body_bytes_max, const std::string& frames) {
    http.new_task_queue = [] { return new ConnectionThreads; };
    http.set_keep_alive_timeout(keep_alive_s);
    http.set_read_timeout(read_timeout_s);
    http.set_write_timeout(write_timeout_s);
    http.set_payload_max_length(body_bytes_max);
    http.set_tcp_nodelay(true);
    // Not SO_REUSEPORT, with which a second server would take half of the first one's requests.
    http.set_socket_options([](int socket) {
        const int yes = 1;
        ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
    });
    http.set_default_headers({{"Content-Security-Policy", content_policy + frames},
                              {"X-Content-Type-Options", "nosniff"},
                              {"Referrer-Policy", "no-referrer"},
                              {"Cross-Origin-Resource-Policy", "same-origin"},
                              {"Cache-Control", "no-store"}});
}

void answer_errors(httplib::Server& http, AnswerError answer, const char* of_a_bug) {
    http.set_error_handler([answer](const httplib::Request&, httplib::Response& response) {
        if (!response.body.empty()) return;
        answer(response,
               response.status,
               response.status == 404   ? "there is nothing at this address"
               : response.status == 413 ? "the body is too long"
                                        : "the request means nothing");
    });
    http.set_exception_handler(
        [answer, of_a_bug](const auto&, httplib::Response& response, std::exception_ptr) {
            answer(response, 500, of_a_bug);
        });
}

int bind_http(httplib::Server& http, const WebAddress& where) {
    if (where.port == 0) return std::max(http.bind_to_any_port(where.host), 0);
    return http.bind_to_port(where.host, where.port) ? where.port : 0;
}

Error cannot_listen(std::string_view what, const WebAddress& where, std::string_view option) {
    return make_error(ErrorKind::local_fault,
                      "{} cannot be served at {}:{}: the port is taken, or the address is none of "
                      "this machine's; {} takes a free port",
                      what,
                      where.host,
                      where.port,
                      option);
}

GatePolicy gate_policy(const WebAddress& where, std::string token) {
    return {.token = std::move(token),
            .on_loopback = where.is_loopback(),
            .own_names = {own_host_name(), own_host_name() + ".local"}};
}

std::optional<Refusal> refusal_at(const httplib::Request& request, const GatePolicy& policy) {
    if (request.get_header_value_count("Host") != 1) return Refusal{400, "one Host header, please"};
    const Asked asked{.method = request.method,
                      .path = request.path,
                      .host = request.get_header_value("Host"),
                      .origin = request.get_header_value("Origin"),
                      .fetch_site = request.get_header_value("Sec-Fetch-Site"),
                      .authorization = request.get_header_value("Authorization"),
                      .query_token = request.get_param_value("token"),
                      .content_type = request.get_header_value("Content-Type")};
    return refusal_of(asked, policy);
}

void send_file(const PageFile& file, httplib::Response& response) {
    response.set_content(file.bytes.data(), file.bytes.size(), std::string(content_type(file)));
}

std::string http_address(const WebAddress& where, int port) {
    const bool anywhere = where.host == "0.0.0.0" || where.host == "::";
    std::string shown = anywhere ? own_host_name() : where.host;
    if (shown.find(':') != std::string::npos) shown = "[" + shown + "]";
    return fmt::format("http://{}:{}", shown, port);
}

ListeningThread::ListeningThread(httplib::Server& http) : http_(http) {
    thread_ = std::thread([&http] { http.listen_after_bind(); });
    // Until the server runs, stop() would do nothing.
    while (!http.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

ListeningThread::~ListeningThread() {
    http_.stop();
    thread_.join();
}

}  // namespace dedloc::web
