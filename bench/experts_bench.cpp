// Both ends of ./bench.sh experts, and the same arithmetic without a network.
//
//   experts_bench serve --experts 4 --width 256            prints its address; until it is killed
//   experts_bench call --address A --experts 4 --width 256 --batch 64 --clients 1 --seconds 5
//   experts_bench loop --width 1024 --batch 2048 --seconds 5
//
// A call pair is a forward and a backward call of hivemind's "ffn" block (which computes the
// forward pass again and makes a step of Adam); experts are called in turn. The last line is an
// object: samples_per_s, pairs, ms (the median of a pair).

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "dedloc/collab/node.h"
#include "dedloc/experts/remote_experts.h"
#include "dedloc/experts/server.h"
#include "dedloc/runtime/together.h"
#include "dedloc/torch_bridge/device.h"
#include "dedloc/torch_bridge/torch_expert.h"

namespace dedloc {
namespace {

struct Options {
    std::string address;
    std::string directory;
    std::size_t experts = 4;
    std::size_t width = 256;
    std::size_t batch = 64;
    std::size_t clients = 1;
    double seconds = 5;
    int threads = 0;
};

experts::ExpertUid uid_of(std::size_t index) {
    return {.grid = "ffn", .coordinates = {static_cast<std::uint32_t>(index)}};
}

experts::FfnOptions block(const Options& options) {
    return {.width = options.width, .optimizer = experts::default_optimizer()};
}

experts::Tensor some_rows(Random& random, const Options& options) {
    experts::Tensor rows = experts::zeros(
        options.batch, std::vector<std::int64_t>{static_cast<std::int64_t>(options.width)});
    for (float& value : rows.values) value = static_cast<float>(random.normal());
    return rows;
}

void print(std::vector<double> took, double seconds, const Options& options) {
    std::sort(took.begin(), took.end());
    const double samples = static_cast<double>(took.size() * options.batch);
    std::printf("{\"samples_per_s\": %.3f, \"pairs\": %zu, \"ms\": %.4f}\n",
                samples / seconds,
                took.size(),
                took.empty() ? 0 : 1e3 * took[took.size() / 2]);
}

Result<std::unique_ptr<collab::Node>> open(const Options& options, bool listens) {
    collab::NodeOptions node{.directory = options.directory};
    node.listen =
        listens ? std::vector<std::string>{"/ip4/127.0.0.1/tcp/0"} : std::vector<std::string>();
    node.nat.map_ports = false;
    return collab::Node::open(std::move(node));
}

int serve(const Options& options) {
    const auto node = open(options, true).value();
    const auto device = runtime::real_workers(node->environment().executor, 1);
    auto server = node->run_on_network_thread([&] {
        auto made = std::make_unique<experts::ExpertServer>(node->host(), *device);
        for (std::size_t i = 0; i < options.experts; ++i)
            made->batcher().add(
                uid_of(i).text(),
                std::make_shared<torch_bridge::TorchFfnExpert>(uid_of(i), block(options)));
        made->start();
        return made;
    });
    // Strangers would be served sparingly.
    node->run_on_network_thread([&host = node->host()] {
        host.on_connection([&host](const PeerId& peer, bool connected) {
            if (connected) host.vouch(peer);
        });
    });
    const auto addresses = node->run_on_network_thread([&] { return node->host().addresses(); });
    std::printf("%s/p2p/%s\n", addresses.at(0).c_str(), node->id().text().c_str());
    std::fflush(stdout);
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
}

Task<void> call_for(collab::Node& node,
                    PeerId server,
                    const Options& options,
                    std::size_t client,
                    TimePoint end,
                    std::vector<double>& took,
                    std::size_t& failed) {
    // The measure is how long calls take: none is given up, as a run would, when a busy
    // machine makes one take three times as long as the last.
    experts::RemoteLimits limits;
    limits.deadline_max = std::chrono::seconds(120);
    limits.deadline_min = limits.deadline_max;
    experts::RemoteExperts remote(node.host(), Random(client), limits);
    Random random(client);
    const experts::Tensor rows = some_rows(random, options);
    for (std::size_t i = client; node.clock().now() < end; ++i) {
        const experts::Location expert{.uid = uid_of(i % options.experts), .server = server};
        const TimePoint begun = node.clock().now();
        std::vector<experts::Tensor> inputs{rows};
        const auto outputs = co_await remote.forward(expert, std::move(inputs));
        std::vector<experts::Tensor> again{rows};
        std::vector<experts::Tensor> gradients{rows};
        const auto inner = co_await remote.backward(expert, std::move(again), std::move(gradients));
        if (!outputs || !inner)
            ++failed;
        else
            took.push_back(to_seconds(node.clock().now() - begun));
    }
}

Task<Result<void>> call_all(collab::Node& node,
                            PeerId server,
                            const Options& options,
                            double seconds,
                            std::vector<double>& took,
                            std::size_t& failed) {
    std::vector<Task<void>> clients;
    const TimePoint end = node.clock().now() + from_seconds(seconds);
    for (std::size_t i = 0; i < options.clients; ++i)
        clients.push_back(call_for(node, server, options, i, end, took, failed));
    co_await runtime::all_of(std::move(clients));
    co_return Result<void>();
}

int call(const Options& options) {
    const auto node = open(options, false).value();
    const TimePoint soon = node->clock().now() + std::chrono::seconds(10);
    const PeerId server = node->call("dial", node->host().dial(options.address, soon)).value();
    std::vector<double> took;
    std::size_t failed = 0;
    (void)node->call("warm up", call_all(*node, server, options, 1, took, failed));
    took.clear();
    failed = 0;
    const auto begun = std::chrono::steady_clock::now();
    (void)node->call("call", call_all(*node, server, options, options.seconds, took, failed));
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begun;
    print(std::move(took), seconds.count(), options);
    if (failed > 0) std::fprintf(stderr, "%zu call pairs failed\n", failed);
    return failed == 0 ? 0 : 1;
}

int loop(const Options& options) {
    torch_bridge::TorchFfnExpert expert(uid_of(0), block(options));
    Random random(1);
    const std::vector<experts::Tensor> rows{some_rows(random, options)};
    std::vector<double> took;
    const auto now = [] { return std::chrono::steady_clock::now(); };
    auto begun = now();
    for (bool warm = false;;) {
        const auto pair_begun = now();
        if (!expert.forward(rows) || !expert.backward(rows, rows)) return 1;
        took.push_back(std::chrono::duration<double>(now() - pair_begun).count());
        const double seconds = std::chrono::duration<double>(now() - begun).count();
        if (!warm && seconds >= 1) {
            warm = true;
            took.clear();
            begun = now();
        } else if (warm && seconds >= options.seconds) {
            print(std::move(took), seconds, options);
            return 0;
        }
    }
}

}  // namespace
}  // namespace dedloc

int main(int argc, char** argv) {
    dedloc::Options options;
    CLI::App app("calls of experts");
    app.require_subcommand(1);
    CLI::App* serve = app.add_subcommand("serve");
    CLI::App* call = app.add_subcommand("call");
    CLI::App* loop = app.add_subcommand("loop");
    call->add_option("--address", options.address)->required();
    for (CLI::App* command : {serve, call, loop}) {
        command->add_option("--dir", options.directory);
        command->add_option("--experts", options.experts);
        command->add_option("--width", options.width);
        command->add_option("--batch", options.batch);
        command->add_option("--clients", options.clients);
        command->add_option("--seconds", options.seconds);
        command->add_option("--threads", options.threads);
    }
    CLI11_PARSE(app, argc, argv);
    dedloc::torch_bridge::set_compute_threads(options.threads);
    if (serve->parsed()) return dedloc::serve(options);
    return call->parsed() ? dedloc::call(options) : dedloc::loop(options);
}
