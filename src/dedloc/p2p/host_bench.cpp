// Two processes on loopback: calls a second, and bytes a second of one message stream.
//
// The callee is a forked child; both ends are encrypted, as always. Besides the wall time, which a
// busy machine spoils, the processor time of both ends is reported.

// First, as in every file that has it precompiled: Asio decides by what was included before it how
// coroutine frames are freed (ASIO_HAS_STD_ALIGNED_ALLOC), and all files of a program must agree.
#include "dedloc/runtime/pch.h"
//
#include <benchmark/benchmark.h>
#include <cstdio>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "dedloc/p2p/make_host.h"
#include "dedloc/runtime/real.h"
#include "dedloc/runtime/together.h"

namespace dedloc::p2p {
namespace {

struct End {
    runtime::Loop loop;
    std::unique_ptr<runtime::Clock> clock = runtime::real_clock(loop.executor());
    std::unique_ptr<runtime::Network> network = runtime::real_network(loop.executor());
    std::unique_ptr<Host> host;

    End() {
        HostOptions options{.executor = loop.executor(),
                            .clock = *clock,
                            .network = *network,
                            .random = Random(static_cast<std::uint64_t>(getpid())),
                            .identity = security::Identity::generate(),
                            .listen = {"/ip4/127.0.0.1/tcp/0"},
                            .announce = {}};
        options.strangers = HostOptions::Strangers::welcome;
        host = make_host(std::move(options)).value();
    }
};

Task<Result<Bytes>> echo(PeerId, Bytes request) { co_return request; }

double cpu_seconds() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto seconds = [](const timeval& time) {
        return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
    };
    return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Task<Result<Bytes>> tell_cpu(PeerId, Bytes) { co_return to_bytes(std::to_string(cpu_seconds())); }

Task<void> swallow(std::unique_ptr<MessageStream> stream) {
    for (;;) {
        auto message = co_await stream->read();
        if (!message) co_return;
        if (!*message) break;
    }
    auto finished = co_await stream->finish();
    (void)finished;
}

[[noreturn]] void serve(int out) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    End end;
    end.host->handle_call("echo", echo);
    end.host->handle_call("cpu", tell_cpu);
    end.host->handle_stream("swallow", swallow);
    const std::string address =
        end.host->addresses().at(0) + "/p2p/" + end.host->id().text() + "\n";
    if (write(out, address.data(), address.size()) < 0) _exit(1);
    end.loop.run();
    _exit(0);
}

struct Pair {
    pid_t child = 0;
    std::unique_ptr<End> end;
    PeerId peer;

    Pair() {
        int pipes[2];
        if (pipe(pipes) != 0) std::abort();
        child = fork();
        if (child == 0) serve(pipes[1]);
        char buffer[256] = {};
        const ssize_t size = read(pipes[0], buffer, sizeof buffer - 1);
        if (size <= 0) std::abort();
        end = std::make_unique<End>();
        end->loop.run_task(dial(std::string(buffer, static_cast<std::size_t>(size) - 1)));
    }
    ~Pair() {
        end->loop.run_task(end->host->stop());
        kill(child, SIGKILL);
    }
    Task<void> dial(std::string address) {
        const TimePoint deadline = end->clock->now() + 5s;
        auto found = co_await end->host->dial(address, deadline);
        peer = found.value();
    }
};

Task<void> ask_cpu(Pair* pair, double* seconds) {
    const TimePoint deadline = pair->end->clock->now() + 10s;
    auto answer = co_await pair->end->host->call(pair->peer, "cpu", Bytes(), deadline);
    *seconds = std::stod(std::string(as_text(answer.value())));
}

// Processor time of both ends per item, in nanoseconds.
class CpuMeter {
  public:
    explicit CpuMeter(Pair& pair) : pair_(pair), ours_(cpu_seconds()), theirs_(remote()) {}
    void report(benchmark::State& state, double items) {
        const double theirs = remote() - theirs_;
        state.counters["cpu_ns_here"] = 1e9 * (cpu_seconds() - ours_) / items;
        state.counters["cpu_ns_there"] = 1e9 * theirs / items;
    }

  private:
    double remote() {
        double seconds = 0;
        pair_.end->loop.run_task(ask_cpu(&pair_, &seconds));
        return seconds;
    }
    Pair& pair_;
    double ours_;
    double theirs_;
};

Task<void> calls(Pair* pair, int count, std::size_t size) {
    for (int i = 0; i < count; ++i) {
        const TimePoint deadline = pair->end->clock->now() + 10s;
        auto answer = co_await pair->end->host->call(pair->peer, "echo", Bytes(size), deadline);
        answer.value();
    }
}

void call_latency(benchmark::State& state) {
    Pair pair;
    CpuMeter meter(pair);
    for (auto _ : state) pair.end->loop.run_task(calls(&pair, 1, 100));
    meter.report(state, static_cast<double>(state.iterations()));
}
BENCHMARK(call_latency)->UseRealTime()->Unit(benchmark::kMicrosecond);

void calls_64_at_once(benchmark::State& state) {
    Pair pair;
    CpuMeter meter(pair);
    for (auto _ : state) {
        std::vector<Task<void>> tasks;
        for (int i = 0; i < 64; ++i) tasks.push_back(calls(&pair, 50, 100));
        pair.end->loop.run_task(runtime::all_of(std::move(tasks)));
    }
    state.SetItemsProcessed(static_cast<std::int64_t>(state.iterations()) * 64 * 50);
    meter.report(state, static_cast<double>(state.iterations()) * 64 * 50);
}
BENCHMARK(calls_64_at_once)->UseRealTime()->Unit(benchmark::kMillisecond);

Task<void> send(Pair* pair, int count, std::size_t size) {
    const TimePoint deadline = pair->end->clock->now() + 10s;
    auto stream = co_await pair->end->host->open_stream(pair->peer, "swallow", deadline);
    for (int i = 0; i < count; ++i) {
        Bytes message(size);
        auto written = co_await (*stream)->write(std::move(message));
        written.value();
    }
    auto finished = co_await (*stream)->finish();
    finished.value();
    auto end = co_await (*stream)->read();
    end.value();
}

void one_stream(benchmark::State& state) {
    Pair pair;
    const auto size = static_cast<std::size_t>(state.range(0));
    const int count = static_cast<int>((std::size_t{512} << 20) / size);
    CpuMeter meter(pair);
    for (auto _ : state) pair.end->loop.run_task(send(&pair, count, size));
    meter.report(state, static_cast<double>(state.iterations()) * (512ll << 20));
    state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations()) * (512ll << 20));
}
BENCHMARK(one_stream)->Arg(1 << 20)->Arg(64 << 10)->UseRealTime()->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace dedloc::p2p
