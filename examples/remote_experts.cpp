// A network of one's own whose layer of experts lives in other processes.
//   example_remote_experts serve DIRECTORY             prints an address; as many as you like,
//   example_remote_experts serve DIRECTORY ADDRESS     the others join the first
//   example_remote_experts train DIRECTORY ADDRESS     learns to multiply; experts learn as well
#include <csignal>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>
#include <torch/nn.h>

#include "dedloc/collab/expert_service.h"
#include "dedloc/torch_bridge/remote_mixture.h"
#include "dedloc/torch_bridge/torch_expert.h"
#include "dedloc/train/node_mixture.h"

using namespace dedloc;

namespace {

constexpr std::int64_t width = 32;
const experts::ExpertGrid grid{.name = "ffn", .sizes = {2, 2}};
volatile std::sig_atomic_t interrupted = 0;
void on_signal(int) { interrupted = 1; }

std::unique_ptr<collab::Node> open(const std::string& directory, const char* first) {
    auto node = collab::Node::open({.directory = directory});
    if (!node) throw std::runtime_error(node.error().message());
    (*node)->join_table();
    (*node)->run_on_network_thread([&host = (*node)->host()] {  // who calls is no stranger here
        host.on_connection([&host](const PeerId& peer, bool on) {
            if (on) host.vouch(peer);
        });
    });
    if (first) {
        const TimePoint deadline = (*node)->clock().now() + std::chrono::seconds(20);
        const auto met = (*node)->call("dial", (*node)->host().dial(first, deadline));
        if (!met) throw std::runtime_error(met.error().message());
    }
    return *std::move(node);
}

int serve(const std::string& directory, const char* first) {
    const auto node = open(directory, first);
    experts::FfnOptions expert{.width = width, .optimizer = experts::default_optimizer()};
    experts::HostOptions options;
    options.grid = grid;
    auto& service = node->add<collab::ExpertService>(
        *node,
        [expert](const experts::ExpertUid& uid) -> Result<std::unique_ptr<experts::ExpertBackend>> {
            return std::unique_ptr<experts::ExpertBackend>(
                std::make_unique<torch_bridge::TorchFfnExpert>(uid, expert));
        },
        options);
    service.start();
    const auto addresses = node->run_on_network_thread([&] { return node->host().addresses(); });
    std::printf("address: %s/p2p/%s\n", addresses.at(0).c_str(), node->id().text().c_str());
    std::fflush(stdout);
    while (!interrupted) std::this_thread::sleep_for(std::chrono::milliseconds(100));
    service.leave(std::chrono::seconds(10));
    std::printf("updates: %lu\n", service.report().calls.updates);
    return 0;
}

int train_with_experts(const std::string& directory, const char* first) {
    const auto node = open(directory, first);
    const auto calls = std::make_shared<train::NodeMixture>(
        *node, experts::MixtureOptions{.grid = grid, .best = 2});
    torch::nn::Linear before(2, width), after(width, 1);
    torch_bridge::RemoteMixture mixture(width, calls);
    torch::nn::Sequential trunk(before, mixture, after);  // the experts are not in it
    torch::optim::AdamW optimizer(trunk->parameters(), 0.003);
    double loss = 0;
    for (int step = 0; step < 300 && !interrupted; ++step) {
        const torch::Tensor inputs = torch::rand({64, 2}) * 2 - 1;
        const torch::Tensor targets = inputs.select(1, 0) * inputs.select(1, 1);
        const torch::Tensor error = torch::mse_loss(trunk->forward(inputs).squeeze(1), targets);
        optimizer.zero_grad();
        error.backward();  // the experts that answered are updated by it
        optimizer.step();
        loss = step == 0 ? error.item<double>() : 0.95 * loss + 0.05 * error.item<double>();
        if (step % 50 == 0) std::printf("step %d loss %.5f\n", step, loss);
    }
    const experts::MixtureCounts counts = calls->counts();
    std::printf("loss %.5f calls %lu failed %lu\n", loss, counts.calls, counts.failed);
    return loss < 0.02 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) try {
    const std::string what = argc > 1 ? argv[1] : "";
    for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, on_signal);
    if (what == "serve" && argc > 2) return serve(argv[2], argc > 3 ? argv[3] : nullptr);
    if (what == "train" && argc > 3) return train_with_experts(argv[2], argv[3]);
    std::fprintf(stderr, "serve DIRECTORY [ADDRESS], or train DIRECTORY ADDRESS\n");
    return 2;
} catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
