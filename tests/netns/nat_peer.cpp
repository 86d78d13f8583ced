#include "tests/netns/nat_peer.h"

#include <chrono>
#include <csignal>
#include <cstring>
#include <future>
#include <set>
#include <sys/socket.h>
#include <sys/un.h>
#include <thread>
#include <unistd.h>

#include "dedloc/base/log.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/p2p/diagnostics.h"
#include "dedloc/p2p/make_host.h"
#include "dedloc/runtime/future.h"
#include "dedloc/runtime/real.h"

#include "tests/netns/nat_topology.h"
#include "tests/process/process_folder.h"

namespace dedloc::lab {
namespace {

constexpr const char* echo_method = "/dedloc/lab/nat/echo/1";
constexpr const char* number_method = "/dedloc/lab/nat/number/1";
constexpr const char* swallow_method = "/dedloc/lab/nat/swallow/1";
constexpr Duration call_timeout = 20s;
constexpr Duration stream_timeout = 180s;
constexpr Duration pump_call_timeout = 3s;
constexpr double start_seconds_max = 90;  // on a machine that is busy with other things
constexpr int answer_seconds_max = 200;

sockaddr_un socket_address(const std::string& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path.c_str(), sizeof address.sun_path - 1);
    return address;
}

// A line from the socket; false at its end.
bool read_line(int socket, std::string& unread, std::string& line) {
    for (;;) {
        const auto end = unread.find('\n');
        if (end != std::string::npos) {
            line = unread.substr(0, end);
            unread.erase(0, end + 1);
            return true;
        }
        char buffer[4096];
        const ssize_t size = ::read(socket, buffer, sizeof buffer);
        if (size <= 0) return false;
        unread.append(buffer, static_cast<std::size_t>(size));
    }
}

bool write_line(int socket, const nlohmann::json& object) {
    const std::string line = monitor::json_line(object) + "\n";
    std::size_t sent = 0;
    while (sent < line.size()) {
        const ssize_t size = ::send(socket, line.data() + sent, line.size() - sent, MSG_NOSIGNAL);
        if (size <= 0) return false;
        sent += static_cast<std::size_t>(size);
    }
    return true;
}

// ------------------------------------------------------------------------------- in the process

struct Pump {
    std::uint32_t calls = 0;
    std::uint32_t done = 0;
    std::uint64_t repeats = 0;
    double longest_gap_s = 0;
    bool running = false;
};

class PeerMain {
  public:
    explicit PeerMain(const NatPeerCommand& command)
        : network_(runtime::real_network(loop_.executor(), command.congestion_control)),
          scope_(std::make_unique<runtime::Scope>(loop_.executor())) {}

    Ok begin(const NatPeerCommand& command) {
        p2p::HostOptions options{.executor = loop_.executor(),
                                 .clock = *clock_,
                                 .network = *network_,
                                 .random = Random(static_cast<std::uint64_t>(::getpid())),
                                 .identity = security::Identity::generate(),
                                 .listen = {command.listen},
                                 .announce = {}};
        options.nat.relay_for = p2p::RelayFor::anyone;
        if (command.relay == "always") options.nat.relay = p2p::RelayServing::always;
        if (command.relay == "never") options.nat.relay = p2p::RelayServing::never;
        DEDLOC_TRY(host_, p2p::make_host(std::move(options)));
        host_->handle_call(echo_method,
                           [](PeerId, Bytes request) { return echo(std::move(request)); });
        host_->handle_call(number_method, [this](PeerId, Bytes request) {
            return take_number(std::move(request));
        });
        host_->handle_stream(swallow_method, swallow);
        thread_ = std::thread([this] { loop_.run(); });
        return {};
    }

    void end() {
        auto closing = std::make_shared<runtime::Scope>(loop_.executor());
        auto stopped = runtime::spawn_future(
            runtime::spawner(loop_, *closing), "stop", stop_all(scope_.get(), host_.get()));
        stopped.wait();
        std::promise<void> gone;
        loop_.post([this, &gone] {
            host_.reset();
            scope_.reset();
            gone.set_value();
        });
        gone.get_future().wait();
        loop_.stop();
        thread_.join();
    }

    nlohmann::json answer(const nlohmann::json& question) {
        const std::string what = question.value("do", "");
        if (what == "report") return there([this] { return report(); });
        if (what == "path") {
            const auto peer = PeerId::from_text(question.value("peer", ""));
            if (!peer) return problem(peer.error());
            return there([this, &peer] { return path(*peer); });
        }
        if (what == "know") return know(question);
        if (what == "dial") return run(dial(question.value("address", "")));
        if (what == "call") return call(question);
        if (what == "pump") return start_pump(question);
        if (what == "stream") return stream(question);
        if (what == "pumped")
            return there([this] {
                return nlohmann::json{{"ok", true},
                                      {"running", pump_.running},
                                      {"done", pump_.done},
                                      {"repeats", pump_.repeats},
                                      {"longest_gap_s", pump_.longest_gap_s}};
            });
        if (what == "received")
            return there([this] {
                return nlohmann::json{{"ok", true}, {"numbers", numbers_.size()}};
            });
        return nlohmann::json{{"ok", false}, {"error", "what is \"" + what + "\"?"}};
    }

  private:
    static nlohmann::json problem(const Error& error) {
        return nlohmann::json{{"ok", false}, {"error", to_string(error)}};
    }

    template <typename Work>
    nlohmann::json there(Work work) {
        std::packaged_task<nlohmann::json()> task(std::move(work));
        auto future = task.get_future();
        loop_.post([&task] { task(); });
        return future.get();
    }
    nlohmann::json run(Task<Result<nlohmann::json>> task) {
        auto future =
            runtime::spawn_future(runtime::spawner(loop_, *scope_), "command", std::move(task));
        const Result<nlohmann::json> outcome = runtime::wait_for_result(future);
        return outcome ? *outcome : problem(outcome.error());
    }

    nlohmann::json report() const {
        const p2p::NatReport nat = p2p::nat_of(*host_)->nat_report();
        nlohmann::json relays = nlohmann::json::array();
        for (const auto& use : nat.relays) relays.push_back(use.relay.text());
        return {{"ok", true},
                {"id", host_->id().text()},
                {"addresses", host_->addresses()},
                {"reachability", p2p::to_string(nat.reachability)},
                {"reason", nat.reason},
                {"observed", nat.observed},
                {"mapping_varies", nat.mapping_varies},
                {"relays", relays},
                {"serves", nat.serves_as_relay},
                {"circuits", nat.relay.circuits},
                {"relay_bytes", nat.relay.bytes},
                {"punches_tried", nat.punches_tried},
                {"punches_succeeded", nat.punches_succeeded}};
    }
    nlohmann::json path(const PeerId& peer) const {
        const p2p::NatView& nat = *p2p::nat_of(*host_);
        return {{"ok", true},
                {"path", p2p::to_string(nat.path_to(peer))},
                {"punching", nat.is_punching(peer)}};
    }
    nlohmann::json know(const nlohmann::json& question) {
        const auto peer = PeerId::from_text(question.value("peer", ""));
        if (!peer) return problem(peer.error());
        const auto addresses = question.value("addresses", std::vector<std::string>());
        return there([&] {
            host_->add_addresses(*peer, addresses);
            return nlohmann::json{{"ok", true}};
        });
    }
    Task<Result<nlohmann::json>> dial(std::string address) {
        const TimePoint deadline = clock_->now() + call_timeout;
        auto peer = co_await host_->dial(address, deadline);
        if (!peer) co_return std::move(peer).error();
        nlohmann::json answer = {{"ok", true}};
        answer["id"] = peer->text();
        co_return answer;
    }
    nlohmann::json call(const nlohmann::json& question) {
        const auto peer = PeerId::from_text(question.value("peer", ""));
        if (!peer) return problem(peer.error());
        return run(call_once(*peer, question.value("bytes", std::size_t{1})));
    }
    Task<Result<nlohmann::json>> call_once(PeerId peer, std::size_t bytes) {
        const TimePoint begun = clock_->now();
        Bytes request(bytes, 7);
        auto answer =
            co_await host_->call(peer, echo_method, std::move(request), begun + call_timeout);
        if (!answer) co_return std::move(answer).error();
        nlohmann::json told = path(peer);
        told["ms"] = to_seconds(clock_->now() - begun) * 1e3;
        co_return told;
    }

    nlohmann::json stream(const nlohmann::json& question) {
        const auto peer = PeerId::from_text(question.value("peer", ""));
        if (!peer) return problem(peer.error());
        return run(stream_once(
            *peer, question.value("megabytes", 1), from_seconds(question.value("ramp_s", 0.0))));
    }
    Task<Result<nlohmann::json>> stream_once(PeerId peer, int megabytes, Duration ramp) {
        const TimePoint deadline = clock_->now() + stream_timeout;
        DEDLOC_CO_TRY(auto opened, co_await host_->open_stream(peer, swallow_method, deadline));
        const std::unique_ptr<p2p::MessageStream> stream = std::move(opened);
        const SharedBytes message(Random(1).bytes(std::size_t{1} << 20));
        const TimePoint begun = clock_->now();
        TimePoint steady_since = begun;
        int steady_from = 0;
        for (int i = 0; i < megabytes; ++i) {
            DEDLOC_CO_TRY_VOID(co_await stream->write_with_body(Bytes(), message));
            if (steady_from > 0 || clock_->now() - begun < ramp) continue;
            steady_since = clock_->now();
            steady_from = i + 1;
        }
        DEDLOC_CO_TRY_VOID(co_await stream->finish());
        DEDLOC_CO_TRY(auto end, co_await stream->read());
        const TimePoint now = clock_->now();
        const double bytes = static_cast<double>(message.size());
        nlohmann::json told = {{"ok", true}};
        told["bytes_per_s"] = bytes * megabytes / to_seconds(now - begun);
        told["steady_bytes_per_s"] =
            bytes * (megabytes - steady_from) / to_seconds(now - steady_since);
        const auto facts = p2p::view_of(*host_)->facts_of(peer);
        told["lanes"] = facts ? facts->lanes : 0;
        co_return told;
    }
    static Task<void> swallow(std::unique_ptr<p2p::MessageStream> stream) {
        for (;;) {
            auto message = co_await stream->read();
            if (!message) co_return;
            if (!*message) break;
        }
        auto finished = co_await stream->finish();
        (void)finished;
    }

    nlohmann::json start_pump(const nlohmann::json& question) {
        const auto peer = PeerId::from_text(question.value("peer", ""));
        if (!peer) return problem(peer.error());
        const auto calls = question.value("calls", 100u);
        const auto bytes = question.value("bytes", std::size_t{1000});
        return there([&, this] {
            pump_ = Pump{.calls = calls, .running = true};
            scope_->spawn("pump", pump_all(*peer, bytes));
            return nlohmann::json{{"ok", true}};
        });
    }
    Task<void> pump_all(PeerId peer, std::size_t bytes) {
        TimePoint last = clock_->now();
        while (pump_.done < pump_.calls) {
            Bytes request;
            base::put_u32_be(request, pump_.done);
            request.resize(std::max(bytes, request.size()), 7);
            const TimePoint deadline = clock_->now() + pump_call_timeout;
            auto answer = co_await host_->call(peer, number_method, std::move(request), deadline);
            if (!answer) {
                ++pump_.repeats;
                co_await clock_->sleep_for(20ms);
                continue;
            }
            const TimePoint now = clock_->now();
            pump_.longest_gap_s = std::max(pump_.longest_gap_s, to_seconds(now - last));
            last = now;
            ++pump_.done;
        }
        pump_.running = false;
    }

    static Task<Result<Bytes>> echo(Bytes request) { co_return request; }
    Task<Result<Bytes>> take_number(Bytes request) {
        base::ByteReader reader(request);
        DEDLOC_CO_TRY(const std::uint32_t number, reader.u32_be());
        numbers_.insert(number);
        co_return Bytes();
    }
    static Task<Result<void>> stop_all(runtime::Scope* scope, p2p::Host* host) {
        co_await scope->stop();
        co_await host->stop();
        co_return Ok();
    }

    runtime::Loop loop_;
    std::unique_ptr<runtime::Clock> clock_ = runtime::real_clock(loop_.executor());
    std::unique_ptr<runtime::Network> network_;
    std::unique_ptr<runtime::Scope> scope_;
    std::unique_ptr<p2p::Host> host_;
    std::thread thread_;
    std::set<std::uint32_t> numbers_;
    Pump pump_;
};

}  // namespace

int run_nat_peer(const NatPeerCommand& command) {
    if (command.log == "debug") base::set_log_level(LogLevel::debug);
    PeerMain peer(command);
    if (const Ok begun = peer.begin(command); !begun) {
        fmt::print(stderr, "dedloc: {}\n", begun.error().message());
        return 1;
    }
    const int listener = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_un address = socket_address(command.socket);
    const bool listens =
        ::bind(listener, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
        ::listen(listener, 1) == 0;
    const int socket = listens ? ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC) : -1;
    std::string unread;
    std::string line;
    while (socket >= 0 && read_line(socket, unread, line)) {
        const nlohmann::json question =
            nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
        if (!write_line(socket,
                        peer.answer(question.is_object() ? question : nlohmann::json::object())))
            break;
    }
    peer.end();
    return socket >= 0 ? 0 : 1;
}

// --------------------------------------------------------------------------------------- outside

Result<std::unique_ptr<NatPeer>> NatPeer::start(const std::string& netns,
                                                const std::string& folder,
                                                const std::string& name,
                                                const std::string& log,
                                                const std::string& congestion_control) {
    const std::string path = folder + "/" + name + ".socket";
    runtime::ChildOptions options;
    options.command = Namespaces::prefix(netns);
    options.command.push_back(this_program());
    for (const std::string& word : {std::string("nat-peer"), std::string("--socket"), path})
        options.command.push_back(word);
    options.command.insert(options.command.end(), {"--log", log});
    if (!congestion_control.empty())
        options.command.insert(options.command.end(), {"--congestion-control", congestion_control});
    options.output_file = folder + "/" + name + ".out";
    options.error_file = folder + "/" + name + ".err";
    DEDLOC_TRY(runtime::ChildProcess process, runtime::ChildProcess::start(options));
    return std::unique_ptr<NatPeer>(new NatPeer(std::move(process), path));
}

Ok NatPeer::ready() {
    DEDLOC_TRY_VOID(connect());
    DEDLOC_TRY(const nlohmann::json report, ask({{"do", "report"}}));
    id_ = report.value("id", "");
    return {};
}

Ok NatPeer::connect() {
    const sockaddr_un address = socket_address(path_);
    const auto until =
        std::chrono::steady_clock::now() + std::chrono::duration<double>(start_seconds_max);
    while (std::chrono::steady_clock::now() < until) {
        socket_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (::connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) {
            const timeval timeout{.tv_sec = answer_seconds_max, .tv_usec = 0};
            ::setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout);
            return {};
        }
        ::close(std::exchange(socket_, -1));
        if (!process_.running())
            return make_error(ErrorKind::local_fault, "a process of the test bed ended at once");
        std::this_thread::sleep_for(10ms);
    }
    return make_error(ErrorKind::timeout, "a process of the test bed did not start");
}

Result<nlohmann::json> NatPeer::ask(const nlohmann::json& question) {
    std::string line;
    if (socket_ < 0 || !write_line(socket_, question) || !read_line(socket_, unread_, line))
        return make_error(ErrorKind::peer_gone, "a process of the test bed does not answer");
    nlohmann::json answer = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!answer.is_object()) return make_error(ErrorKind::local_fault, "no JSON: {}", line);
    if (!answer.value("ok", false))
        return make_error(ErrorKind::peer_gone, "{}", answer.value("error", "?"));
    return answer;
}

void NatPeer::kill() { process_.send(SIGKILL); }

NatPeer::~NatPeer() {
    if (socket_ >= 0) ::close(socket_);
    if (process_.wait_for(3)) return;
    process_.send(SIGKILL);
}

}  // namespace dedloc::lab
