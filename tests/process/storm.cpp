#include "tests/process/storm.h"

#include <algorithm>
#include <arpa/inet.h>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fmt/format.h>
#include <fstream>
#include <netinet/in.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "dedloc/base/random.h"
#include "dedloc/monitor/json_line.h"
#include "dedloc/security/tls.h"
#include "dedloc/wire/multistream.h"

#include "tests/common/exit_codes.h"
#include "tests/process/bowl_run.h"
#include "tests/process/peer_process.h"
#include "tests/process/process_folder.h"
#include "tests/process/storm_floods.h"

namespace dedloc::lab {
namespace {

using json = nlohmann::json;
using Clock = std::chrono::steady_clock;
constexpr double slowdown_max = 0.10;
// 64 handshakes of strangers with their buffers are some 2 MB; all else the kernel holds.
constexpr double growth_mb_max = 64;
// Limits of a flood: the speed that it leaves, beside a neighbour that computes as much, and the
// memory that stays taken once it is over.
constexpr double speed_min = 0.9;
constexpr double kept_mb_max = 50;
constexpr double flood_seconds_max = 10;
constexpr auto settling = std::chrono::seconds(1);
constexpr auto giving_back = std::chrono::seconds(60);
constexpr double storm_timeout_s = 180;
constexpr auto log_glance = std::chrono::milliseconds(5);
constexpr auto dial_again = std::chrono::milliseconds(300);
constexpr auto slow_letter = std::chrono::milliseconds(500);
constexpr auto dialler_tick = std::chrono::milliseconds(20);
constexpr std::size_t garbage_bytes = 4096;

const BowlRun storm_bowl = {.name = "storm", .elements = 65536, .milliseconds = 30};

// ---- the strangers ------------------------------------------------------------------------------

enum class Kind {
    silent,
    garbage,
    slow,
    oversized,
    hello_and_gone,
    hello_and_wait,
    hello_costly,
    half,
    resetting
};
constexpr int kinds_count = 9;

struct Stranger {
    Kind kind = Kind::silent;
    int socket = -1;
    Clock::time_point dialled{};
    Clock::time_point spoke{};
    std::size_t said = 0;
};

Bytes with_size(ByteView bytes) {
    Bytes out;
    base::put_u16_be(out, static_cast<std::uint16_t>(bytes.size()));
    base::append(out, bytes);
    return out;
}

// A client's hello (RFC 8446 §4.1.2) that offers one key exchange alone, ffdhe8192: who takes it up
// computes for 94 ms.
Bytes costly_hello() {
    Bytes extensions;
    const auto extend = [&extensions](std::uint16_t type, ByteView content) {
        base::put_u16_be(extensions, type);
        base::append(extensions, with_size(content));
    };
    const Bytes ffdhe8192 = {1, 4};
    Bytes key_share = ffdhe8192;
    base::append(key_share, with_size(Random(2).bytes(1024)));
    extend(10, with_size(ffdhe8192));               // supported_groups
    extend(13, with_size(Bytes{4, 3}));             // signature_algorithms: ECDSA with P-256
    extend(16, with_size(as_bytes("\x06libp2p")));  // ALPN
    extend(43, Bytes{2, 3, 4});                     // supported_versions: TLS 1.3
    extend(51, with_size(key_share));
    Bytes hello = {3, 3};
    base::append(hello, Random(3).bytes(32));
    base::append(hello, Bytes{0, 0, 2, 0x13, 1, 1, 0});  // no session, one suite, no compression
    base::append(hello, with_size(extensions));
    Bytes message = {1, 0};  // its size has three bytes
    base::append(message, with_size(hello));
    Bytes record = {22, 3, 1};
    base::append(record, with_size(message));
    return record;
}

// The words are made once: the first flight of a real TLS client is among them.
struct Words {
    Bytes proposal;
    Bytes hello;
    Bytes costly;
    Bytes garbage;
    Bytes oversized;

    Words() : garbage(Random(1).bytes(garbage_bytes)) {
        wire::put_multistream_line(proposal, wire::multistream_header);
        wire::put_multistream_line(proposal, security::tls_protocol);
        hello = proposal;
        const auto identity = security::Identity::generate();
        auto channel = security::TlsChannel::client(
            security::TlsContext::make(identity), std::nullopt, WallSeconds(0));
        base::append(hello, channel.take_output());
        costly = proposal;
        base::append(costly, costly_hello());
        oversized = proposal;
        // A TLS record of 16 MiB, and then what might be its beginning.
        const Bytes header = {22, 3, 1, 255, 255};
        base::append(oversized, header);
        base::append(oversized, garbage);
    }
};

class Storm {
  public:
    Storm(int dialers, std::uint16_t port) : strangers_(static_cast<std::size_t>(dialers)) {
        address_.sin_family = AF_INET;
        address_.sin_port = htons(port);
        address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        for (std::size_t i = 0; i < strangers_.size(); ++i)
            strangers_[i].kind = static_cast<Kind>(i % kinds_count);
        thread_ = std::thread([this] { run(); });
    }
    ~Storm() {
        over_ = true;
        thread_.join();
        for (Stranger& one : strangers_)
            if (one.socket >= 0) ::close(one.socket);
    }
    Storm(const Storm&) = delete;
    Storm& operator=(const Storm&) = delete;
    std::uint64_t dialled() const { return dialled_; }
    std::uint64_t bytes() const { return bytes_; }

  private:
    void run() {
        while (!over_) {
            const auto now = Clock::now();
            for (Stranger& one : strangers_) act(one, now);
            std::this_thread::sleep_for(dialler_tick);
        }
    }
    void hang_up(Stranger& one, bool reset) {
        const linger now{.l_onoff = 1, .l_linger = 0};
        if (reset) (void)::setsockopt(one.socket, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        ::close(one.socket);
        one.socket = -1;
    }
    void dial(Stranger& one, Clock::time_point now) {
        if (now - one.dialled < dial_again) return;
        one.dialled = one.spoke = now;
        one.said = 0;
        one.socket = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (one.socket < 0) return;
        (void)::connect(one.socket, reinterpret_cast<const sockaddr*>(&address_), sizeof address_);
        ++dialled_;
    }
    // Says the rest of `words` as far as it is taken.
    void say(Stranger& one, ByteView words) {
        if (one.said >= words.size()) return;
        const ByteView rest = words.subspan(one.said);
        const ssize_t sent = ::send(one.socket, rest.data(), rest.size(), MSG_NOSIGNAL);
        if (sent <= 0) return;
        one.said += static_cast<std::size_t>(sent);
        bytes_ += static_cast<std::uint64_t>(sent);
    }
    void act(Stranger& one, Clock::time_point now) {
        if (one.socket < 0) return dial(one, now);
        pollfd state{.fd = one.socket, .events = POLLOUT | POLLIN, .revents = 0};
        if (::poll(&state, 1, 0) <= 0) return;
        char heard[4096];
        if ((state.revents & POLLIN) != 0 && ::recv(one.socket, heard, sizeof heard, 0) == 0)
            return hang_up(one, false);
        if ((state.revents & (POLLERR | POLLHUP)) != 0) return hang_up(one, false);
        speak(one, now);
    }
    void speak(Stranger& one, Clock::time_point now) {
        switch (one.kind) {
            case Kind::silent:
                return;
            case Kind::garbage:
                if (one.said >= words_.garbage.size()) one.said = 0;
                return say(one, words_.garbage);
            case Kind::slow:
                if (now - one.spoke < slow_letter || one.said >= words_.proposal.size()) return;
                one.spoke = now;
                return say(one, ByteView(words_.proposal).first(one.said + 1));
            case Kind::oversized:
                return say(one, words_.oversized);
            case Kind::hello_and_gone:
                say(one, words_.hello);
                if (one.said >= words_.hello.size()) hang_up(one, true);
                return;
            case Kind::hello_and_wait:
                return say(one, words_.hello);
            case Kind::hello_costly:
                return say(one, words_.costly);
            case Kind::half:
                say(one, ByteView(words_.proposal).first(words_.proposal.size() / 2));
                if (one.said > 0) (void)::shutdown(one.socket, SHUT_WR);
                return;
            case Kind::resetting:
                return hang_up(one, true);
        }
    }

    sockaddr_in address_{};
    Words words_;
    std::vector<Stranger> strangers_;
    std::atomic<bool> over_ = false;
    std::atomic<std::uint64_t> dialled_ = 0;
    std::atomic<std::uint64_t> bytes_ = 0;
    std::thread thread_;
};

// ---- the collaboration --------------------------------------------------------------------------

std::uint16_t free_port() {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    (void)::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address);
    (void)::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
    ::close(socket);
    return ntohs(address.sin_port);
}

// Resident memory in MB: "VmRSS" now, "VmHWM" the most so far.
double memory_mb(pid_t pid, const std::string& what) {
    std::ifstream status(fmt::format("/proc/{}/status", pid));
    std::string word;
    while (status >> word)
        if (word == what + ":") {
            double kilobytes = 0;
            status >> kilobytes;
            return kilobytes * 1024 / 1e6;
        }
    return 0;
}

struct Peers {
    std::uint16_t port = free_port();
    std::vector<std::unique_ptr<PeerProcess>> all;

    PeerProcess& host() { return *all.front(); }

    Ok start(const std::string& program, const std::string& folder) {
        const std::string run = folder + "/run.toml";
        std::ofstream(run) << bowl_run_text(storm_bowl);
        std::vector<std::string> words = {
            "host", run, "--listen", fmt::format("127.0.0.1:{}", port)};
        for (int i = 1; i <= 3; ++i) {
            DEDLOC_TRY(auto peer,
                       PeerProcess::start(program, words, folder, fmt::format("peer-{}", i)));
            all.push_back(std::move(peer));
            if (i > 1) continue;
            DEDLOC_TRY_VOID(
                wait(storm_timeout_s, [this] { return !host().join_string().empty(); }));
            words = {"join", host().join_string()};
        }
        return wait(storm_timeout_s, [this] {
            return !host().steps().empty() && host().steps().back().members == 3;
        });
    }
    template <typename Done>
    Ok wait(double seconds, Done done) {
        const auto until = Clock::now() + std::chrono::duration<double>(seconds);
        while (!done()) {
            for (const auto& peer : all) peer->poll();
            for (const auto& peer : all)
                if (!peer->process().running())
                    return make_error(ErrorKind::local_fault,
                                      "{} has ended: {}",
                                      peer->name(),
                                      peer->last_error());
            if (Clock::now() > until)
                return make_error(ErrorKind::timeout, "the peers took too long to start");
            std::this_thread::sleep_for(log_glance);
        }
        return {};
    }
    // Seconds of a step, over so long.
    Result<double> mean_step(double seconds) {
        const auto over = Clock::now() + std::chrono::duration<double>(seconds);
        const std::size_t first = host().steps().size();
        DEDLOC_TRY_VOID(wait(seconds + storm_timeout_s, [&] {
            return Clock::now() >= over && host().steps().size() > first + 1;
        }));
        const auto& steps = host().steps();
        return (steps.back().time - steps[first].time) /
               static_cast<double>(steps.size() - 1 - first);
    }
};

struct FloodOutcome {
    FloodKind kind{};
    double step_s = 0;
    double neighbour_s = 0;  // beside a neighbour that is as busy
    double busy = 0;         // of a core, both
    double answers_per_s = 0;
    double peak_mb = 0;
    double speed() const { return neighbour_s / step_s; }
};

struct Outcome {
    double before_s = 0;
    double during_s = 0;
    double before_mb = 0;
    double storm_mb = 0;  // the most of the time until the storm of those at the door is over
    double peak_mb = 0;
    double after_mb = 0;  // a minute after all of it
    double steps_mb = 0;  // what another peer, whom nobody floods, holds more by then
    std::uint64_t dialled = 0;
    std::uint64_t bytes = 0;
    std::vector<FloodOutcome> floods;

    // The memory that a run keeps for its steps is not the strangers' doing.
    double kept_mb() const { return after_mb - before_mb - steps_mb; }
    double slowdown() const { return during_s / before_s - 1; }
    bool is_good() const {
        const bool quick = std::ranges::all_of(
            floods, [](const auto& flood) { return flood.speed() >= speed_min; });
        return quick && slowdown() < slowdown_max && storm_mb - before_mb < growth_mb_max &&
               kept_mb() < kept_mb_max;
    }
};

Result<double> step_beside_flood(FloodOutcome& outcome, Peers& peers, double seconds) {
    const pid_t pid = peers.host().process().pid();
    const Flood flood(outcome.kind, peers.port);
    std::this_thread::sleep_for(settling);
    (void)peers.host().poll();
    const double spent = flood.cpu_seconds();
    const std::uint64_t answers = flood.answers();
    const auto begun = Clock::now();
    DEDLOC_TRY(const double step_s, peers.mean_step(seconds));
    const double took = std::chrono::duration<double>(Clock::now() - begun).count();
    outcome.busy = (flood.cpu_seconds() - spent) / took;
    outcome.answers_per_s = static_cast<double>(flood.answers() - answers) / took;
    outcome.peak_mb = std::max(outcome.peak_mb, memory_mb(pid, "VmRSS"));
    return step_s;
}

Result<double> step_beside_neighbour(double busy, Peers& peers, double seconds) {
    const BusyNeighbour neighbour(busy);
    std::this_thread::sleep_for(settling);
    (void)peers.host().poll();
    return peers.mean_step(seconds);
}

// The flood before and after the neighbour: what else runs on the machine changes meanwhile.
Result<FloodOutcome> measure_flood(FloodKind kind, Peers& peers, double seconds) {
    FloodOutcome outcome;
    outcome.kind = kind;
    DEDLOC_TRY(const double first_s, step_beside_flood(outcome, peers, seconds / 2));
    DEDLOC_TRY(outcome.neighbour_s, step_beside_neighbour(outcome.busy, peers, seconds));
    DEDLOC_TRY(const double second_s, step_beside_flood(outcome, peers, seconds / 2));
    outcome.step_s = (first_s + second_s) / 2;
    return outcome;
}

Result<Outcome> measure(const StormCommand& command, const std::string& folder) {
    Peers peers;
    DEDLOC_TRY_VOID(
        peers.start(command.program.empty() ? dedloc_program() : command.program, folder));
    const pid_t pid = peers.host().process().pid();
    const pid_t other = peers.all.back()->process().pid();
    Outcome outcome;
    DEDLOC_TRY(outcome.before_s, peers.mean_step(command.seconds));
    outcome.before_mb = memory_mb(pid, "VmRSS");
    const double other_before_mb = memory_mb(other, "VmRSS");
    {
        const Storm storm(command.dialers, peers.port);
        DEDLOC_TRY(outcome.during_s, peers.mean_step(command.seconds));
        outcome.dialled = storm.dialled();
        outcome.bytes = storm.bytes();
    }
    outcome.storm_mb = memory_mb(pid, "VmHWM");
    const double seconds = std::min(command.seconds, flood_seconds_max);
    for (const FloodKind kind : flood_kinds) {
        DEDLOC_TRY(FloodOutcome flood, measure_flood(kind, peers, seconds));
        outcome.floods.push_back(flood);
    }
    outcome.peak_mb = memory_mb(pid, "VmHWM");
    std::this_thread::sleep_for(giving_back);
    outcome.after_mb = memory_mb(pid, "VmRSS");
    outcome.steps_mb = memory_mb(other, "VmRSS") - other_before_mb;
    return outcome;
}

void print_floods(const Outcome& outcome) {
    for (const FloodOutcome& flood : outcome.floods)
        fmt::print(
            "{:>10}: a step takes {:.0f} ms, {:.0f} ms beside a neighbour that is as busy ({:.0f} "
            "% "
            "of a core): {:.2f} of the speed; {:.0f} answers/s, {:.0f} MB\n",
            to_string(flood.kind),
            flood.step_s * 1e3,
            flood.neighbour_s * 1e3,
            flood.busy * 100,
            flood.speed(),
            flood.answers_per_s,
            flood.peak_mb);
    fmt::print(
        "a minute later the host holds {:.0f} MB, of which {:.0f} MB are of the steps meanwhile "
        "and "
        "{:.0f} MB of the floods\n",
        outcome.after_mb,
        outcome.steps_mb,
        outcome.kept_mb());
}

json floods_json(const Outcome& outcome) {
    json floods = json::object();
    for (const FloodOutcome& flood : outcome.floods)
        floods[std::string(to_string(flood.kind))] = {
            {"speed", flood.speed()},
            {"step_ms", flood.step_s * 1e3},
            {"neighbour_step_ms", flood.neighbour_s * 1e3},
            {"busy", flood.busy},
            {"answers_per_s", flood.answers_per_s},
            {"mb", flood.peak_mb}};
    return floods;
}

}  // namespace

int run_storm(const StormCommand& command) {
    const auto folder = process_folder("", "storm");
    if (!folder) {
        fmt::print(stderr, "dedloc: {}\n", folder.error().message());
        return exit_disk;
    }
    const auto outcome = measure(command, *folder);
    end_process_folder(*folder, /*keep=*/!outcome);
    if (!outcome) {
        fmt::print(stderr, "dedloc: {}\n", outcome.error().message());
        return exit_check_failed;
    }
    fmt::print(
        "a step takes {:.0f} ms, in the storm {:.0f} ms ({:+.1f} %)\n"
        "the host holds {:.0f} MB, in the storm at most {:.0f} MB\n"
        "{} strangers dialled {} times and sent {:.1f} MB\n",
        outcome->before_s * 1e3,
        outcome->during_s * 1e3,
        outcome->slowdown() * 100,
        outcome->before_mb,
        outcome->storm_mb,
        command.dialers,
        outcome->dialled,
        static_cast<double>(outcome->bytes) / 1e6);
    print_floods(*outcome);
    if (command.json) {
        const json result = {{"slowdown", outcome->slowdown()},
                             {"peak_mb", outcome->peak_mb},
                             {"before_mb", outcome->before_mb},
                             {"growth_mb_max", growth_mb_max},
                             {"storm_mb", outcome->storm_mb},
                             {"after_mb", outcome->after_mb},
                             {"steps_mb", outcome->steps_mb},
                             {"kept_mb", outcome->kept_mb()},
                             {"kept_mb_max", kept_mb_max},
                             {"floods", floods_json(*outcome)},
                             {"speed_min", speed_min},
                             {"step_ms_before", outcome->before_s * 1e3},
                             {"step_ms_during", outcome->during_s * 1e3},
                             {"dialled", outcome->dialled},
                             {"dialers", command.dialers}};
        fmt::print("{}\n", monitor::json_line(result));
    }
    return outcome->is_good() ? 0 : exit_check_failed;
}

}  // namespace dedloc::lab
