// Our host as the measures of ./bench.sh stream want it: one end serves, the other measures.
//
//   stream_bench serve [--security tls|noise]            prints its address, serves until killed
//   stream_bench stream --address A [--megabytes N]      one stream of messages of 1 MiB
//   stream_bench rpc --address A [--calls N] [--at-once N]    unary calls of 100 bytes
//   stream_bench connections --address A --count N       so many peers connect, and stay
//
// All but serve print one JSON object. Both ends are whole hosts, encrypted, in processes of their
// own; `there` is what the server says of itself (processor seconds, resident memory).

// First, as in every file that has it precompiled: Asio decides by what was included before it how
// coroutine frames are freed (ASIO_HAS_STD_ALIGNED_ALLOC), and all files of a program must agree.
#include "dedloc/runtime/pch.h"
//
#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>
#include <sys/prctl.h>
#include <unistd.h>
#include <vector>

#include "dedloc/measure/need.h"
#include "dedloc/p2p/make_host.h"
#include "dedloc/runtime/real.h"
#include "dedloc/runtime/together.h"

#include "bench/cpu_seconds.h"

namespace dedloc {
namespace {

using namespace std::chrono_literals;

using bench::cpu_seconds;
using measure::fail;
using measure::need;

struct Arguments {
    std::string security = "tls";
    std::string address;
    int megabytes = 512;
    int calls = 40000;
    int at_once = 64;
    int count = 2000;
};

constexpr Duration timeout = 120s;
constexpr std::size_t message_bytes = 1u << 20;
constexpr int dials_at_once = 16;

double resident_bytes() {
    long pages = 0;
    long resident = 0;
    std::ifstream("/proc/self/statm") >> pages >> resident;
    return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

std::unique_ptr<p2p::Host> make_end(runtime::Loop& loop,
                                    runtime::Clock& clock,
                                    runtime::Network& network,
                                    const std::string& security,
                                    std::vector<std::string> listen) {
    p2p::HostOptions options{.executor = loop.executor(),
                             .clock = clock,
                             .network = network,
                             .random = Random(static_cast<std::uint64_t>(getpid())),
                             .identity = security::Identity::generate(),
                             .listen = std::move(listen),
                             .announce = {}};
    options.strangers = p2p::HostOptions::Strangers::welcome;
    if (security == "noise") options.security.protocols = {"/noise"};
    if (security == "tls") options.security.protocols = {"/tls/1.0.0"};
    return need(p2p::make_host(std::move(options)));
}

struct End {
    explicit End(const std::string& security, std::vector<std::string> listen = {})
        : clock(runtime::real_clock(loop.executor())),
          network(runtime::real_network(loop.executor())),
          host(make_end(loop, *clock, *network, security, std::move(listen))) {}

    runtime::Loop loop;
    std::unique_ptr<runtime::Clock> clock;
    std::unique_ptr<runtime::Network> network;
    std::unique_ptr<p2p::Host> host;

    double now() const { return std::chrono::duration<double>(clock->now() - TimePoint()).count(); }
};

// --------------------------------------------------------------------------------------- server

Task<Result<Bytes>> echo(PeerId, Bytes request) { co_return request; }

Task<Result<Bytes>> tell(p2p::Host* host) {
    const auto text =
        fmt::format("{} {} {}", cpu_seconds(), resident_bytes(), host->connected_peers().size());
    co_return to_bytes(text);
}

Task<void> swallow(std::unique_ptr<p2p::MessageStream> stream) {
    for (;;) {
        auto message = co_await stream->read();
        if (!message) co_return;
        if (!*message) break;
    }
    auto finished = co_await stream->finish();
    (void)finished;
}

int serve(const Arguments& arguments) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    End end(arguments.security, {"/ip4/127.0.0.1/tcp/0"});
    p2p::Host* const host = end.host.get();
    host->handle_call("echo", echo);
    host->handle_call("there", [host](PeerId, Bytes) { return tell(host); });
    host->handle_stream("swallow", swallow);
    std::printf("%s/p2p/%s\n", host->addresses().at(0).c_str(), host->id().text().c_str());
    std::fflush(stdout);
    end.loop.run();
    return 0;
}

// ------------------------------------------------------------------------------------- measures

struct There {
    double cpu_s = 0;
    double resident_bytes = 0;
    double peers = 0;
};

Task<There> ask_there(End* end, PeerId peer) {
    const TimePoint deadline = end->clock->now() + timeout;
    auto answer = co_await end->host->call(peer, "there", Bytes(), deadline);
    const std::string text(as_text(need(std::move(answer))));
    There there;
    if (std::sscanf(
            text.c_str(), "%lf %lf %lf", &there.cpu_s, &there.resident_bytes, &there.peers) != 3)
        throw std::runtime_error("the server said \"" + text + "\"");
    co_return there;
}

Task<PeerId> dial(End* end, std::string address) {
    const TimePoint deadline = end->clock->now() + timeout;
    auto peer = co_await end->host->dial(address, deadline);
    co_return need(std::move(peer));
}

Task<void> send(End* end, PeerId peer, SharedBytes message, int count) {
    const TimePoint deadline = end->clock->now() + timeout;
    auto opened = co_await end->host->open_stream(peer, "swallow", deadline);
    const auto stream = need(std::move(opened));
    for (int i = 0; i < count; ++i) {
        auto written = co_await stream->write_with_body(Bytes(), message);
        if (!written) fail(written.error());
    }
    auto finished = co_await stream->finish();
    if (!finished) fail(finished.error());
    auto last = co_await stream->read();
    if (!last) fail(last.error());
}

Task<void> measure_stream(End* end, const Arguments* arguments) {
    const PeerId peer = co_await dial(end, arguments->address);
    const SharedBytes message(Random(1).bytes(message_bytes));
    co_await send(end, peer, message, 16);  // windows and memory grow
    const There before = co_await ask_there(end, peer);
    const double cpu_before = cpu_seconds();
    const double begun = end->now();
    co_await send(end, peer, message, arguments->megabytes);
    const double seconds = end->now() - begun;
    const double cpu_here = cpu_seconds() - cpu_before;
    const There after = co_await ask_there(end, peer);
    const double bytes = static_cast<double>(arguments->megabytes) * message_bytes;
    std::printf(
        "{\"bytes_per_s\": %.0f, \"seconds\": %.4f, \"cpu_here_s\": %.4f, "
        "\"cpu_there_s\": %.4f}\n",
        bytes / seconds,
        seconds,
        cpu_here,
        after.cpu_s - before.cpu_s);
}

Task<void> call_often(End* end, PeerId peer, int count) {
    for (int i = 0; i < count; ++i) {
        const TimePoint deadline = end->clock->now() + timeout;
        auto answer = co_await end->host->call(peer, "echo", Bytes(100), deadline);
        if (!answer) fail(answer.error());
    }
}

Task<void> call_side_by_side(End* end, PeerId peer, int calls, int at_once) {
    std::vector<Task<void>> tasks;
    for (int i = 0; i < at_once; ++i) tasks.push_back(call_often(end, peer, calls / at_once));
    co_await runtime::all_of(std::move(tasks));
}

Task<void> measure_rpc(End* end, const Arguments* arguments) {
    const PeerId peer = co_await dial(end, arguments->address);
    co_await call_side_by_side(end, peer, 2000, arguments->at_once);
    const There before = co_await ask_there(end, peer);
    const double cpu_before = cpu_seconds();
    const double begun = end->now();
    co_await call_side_by_side(end, peer, arguments->calls, arguments->at_once);
    const double seconds = end->now() - begun;
    const double cpu_here = cpu_seconds() - cpu_before;
    const There after = co_await ask_there(end, peer);
    const int calls = arguments->calls / arguments->at_once * arguments->at_once;
    std::printf("{\"calls_per_s\": %.0f, \"cpu_us_here\": %.2f, \"cpu_us_there\": %.2f}\n",
                calls / seconds,
                1e6 * cpu_here / calls,
                1e6 * (after.cpu_s - before.cpu_s) / calls);
}

Task<void> dial_in_turn(End* end, std::vector<p2p::Host*> hosts, std::string address) {
    for (p2p::Host* host : hosts) {
        const TimePoint deadline = end->clock->now() + timeout;
        auto peer = co_await host->dial(address, deadline);
        if (!peer) fail(peer.error());
        const PeerId id = *std::move(peer);
        auto answer = co_await host->call(id, "echo", Bytes(100), deadline);
        if (!answer) fail(answer.error());
    }
}

Task<void> measure_connections(End* end, const Arguments* arguments) {
    const PeerId peer = co_await dial(end, arguments->address);
    const There before = co_await ask_there(end, peer);
    std::vector<std::unique_ptr<p2p::Host>> hosts;
    std::vector<std::vector<p2p::Host*>> shares(dials_at_once);
    for (int i = 0; i < arguments->count; ++i) {
        hosts.push_back(make_end(end->loop, *end->clock, *end->network, arguments->security, {}));
        shares[static_cast<std::size_t>(i) % shares.size()].push_back(hosts.back().get());
    }
    const double begun = end->now();
    std::vector<Task<void>> tasks;
    for (auto& share : shares)
        tasks.push_back(dial_in_turn(end, std::move(share), arguments->address));
    co_await runtime::all_of(std::move(tasks));
    const double seconds = end->now() - begun;
    const There after = co_await ask_there(end, peer);
    std::printf(
        "{\"connections\": %.0f, \"resident_bytes\": %.0f, \"before_bytes\": %.0f, "
        "\"seconds\": %.2f}\n",
        after.peers - before.peers,
        after.resident_bytes,
        before.resident_bytes,
        seconds);
    for (const auto& host : hosts) co_await host->stop();
}

// 2,000 connections need as many descriptors.
void raise_descriptor_limit() {
    rlimit limit{};
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = limit.rlim_max;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

int run_streams(Task<void> (*measure)(End*, const Arguments*), const Arguments& arguments) {
    End end(arguments.security);
    end.loop.run_task(measure(&end, &arguments));
    end.loop.run_task(end.host->stop());
    return 0;
}

}  // namespace
}  // namespace dedloc

int main(int argc, char** argv) {
    using namespace dedloc;
    Arguments arguments;
    CLI::App app("dedloc's host, measured");
    app.require_subcommand(1);
    CLI::App* serving = app.add_subcommand("serve", "the other end");
    CLI::App* stream = app.add_subcommand("stream", "one stream");
    CLI::App* rpc = app.add_subcommand("rpc", "unary calls");
    CLI::App* connections = app.add_subcommand("connections", "many peers");
    for (CLI::App* one : {serving, stream, rpc, connections})
        one->add_option("--security", arguments.security, "tls or noise");
    for (CLI::App* one : {stream, rpc, connections})
        one->add_option("--address", arguments.address)->required();
    stream->add_option("--megabytes", arguments.megabytes, "MiB to send");
    rpc->add_option("--calls", arguments.calls);
    rpc->add_option("--at-once", arguments.at_once);
    connections->add_option("--count", arguments.count);
    CLI11_PARSE(app, argc, argv);
    raise_descriptor_limit();
    try {
        if (*serving) return serve(arguments);
        if (*stream) return run_streams(measure_stream, arguments);
        if (*rpc) return run_streams(measure_rpc, arguments);
        return run_streams(measure_connections, arguments);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "stream_bench: %s\n", error.what());
        return 1;
    }
}
