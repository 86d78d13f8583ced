// The anchor of solo: the demo's network in a plain libtorch loop, nothing of dedloc in the way.
// Batches are cut by the same function, in a shuffled order; gradients of micro-batches add up to
// the target, then torch::optim::SGD steps.
//
//   plain_loop --batch 256 --target 1024 --steps 40 --threads 2
//
// Prints one JSON object: when each step ended by the wall clock, and how long it took, in seconds.

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <fmt/format.h>
#include <numeric>
#include <vector>

#include "dedloc/base/random.h"
#include "dedloc/runtime/heap.h"
#include "dedloc/tasks/vision_classifier/vision_models.h"
#include "dedloc/torch_bridge/libtorch.h"

namespace dedloc {
namespace {

struct Arguments {
    std::uint32_t batch = 256;
    std::uint32_t target = 1024;
    int steps = 40;
    int threads = 0;
    std::string data = tasks::fashion_mnist_directory;
};

int run_loop(const Arguments& arguments) {
    if (arguments.threads > 0) torch::set_num_threads(arguments.threads);
    const auto data = tasks::load_fashion_mnist(arguments.data);
    if (!data) throw std::runtime_error(data.error().message());
    std::vector<std::uint32_t> order(data->train.count);
    std::iota(order.begin(), order.end(), 0u);
    Random random(1);
    random.shuffle(order);

    const torch_bridge::TorchModel model = tasks::make_vision_model("small_cnn", 1);
    model.module->train();
    torch::optim::SGD optimizer(model.module->parameters(),
                                torch::optim::SGDOptions(0.05).momentum(0.9));
    std::size_t next = 0;
    const auto batch_of = [&](std::uint32_t count) {
        std::vector<std::uint32_t> indices(count);
        for (std::uint32_t& index : indices) index = order[next++ % order.size()];
        return tasks::image_batch(data->train, indices, {});
    };
    using Clock = std::chrono::system_clock;  // the one that both programs of a benchmark share
    const auto seconds_of = [](auto time) { return std::chrono::duration<double>(time).count(); };
    auto before = Clock::now();
    std::vector<double> ends;
    std::vector<double> seconds;
    double loss_sum = 0;
    for (int step = 0; step < arguments.steps; ++step) {
        optimizer.zero_grad();
        loss_sum = 0;
        for (std::uint32_t done = 0; done < arguments.target; done += arguments.batch) {
            const torch_bridge::TorchBatch batch = batch_of(arguments.batch);
            const torch::Tensor loss =
                torch_bridge::classification_loss(model.forward(batch.inputs), batch.targets).sum /
                static_cast<double>(arguments.target);
            loss.backward();
            loss_sum += loss.item<double>();
        }
        optimizer.step();
        const auto now = Clock::now();
        ends.push_back(seconds_of(now.time_since_epoch()));
        seconds.push_back(seconds_of(now - before));
        before = now;
    }
    fmt::print("{{\"loss\": {:.4f}, \"ends\": [{:.4f}], \"seconds\": [{:.6f}]}}\n",
               loss_sum,
               fmt::join(ends, ", "),
               fmt::join(seconds, ", "));
    return 0;
}

}  // namespace
}  // namespace dedloc

int main(int argc, char** argv) {
    dedloc::Arguments arguments;
    CLI::App app("a plain libtorch loop");
    app.add_option("--batch", arguments.batch)->check(CLI::Range(1, 60000));
    app.add_option("--target", arguments.target)->check(CLI::Range(1, 1 << 20));
    app.add_option("--steps", arguments.steps)->check(CLI::Range(1, 1 << 20));
    app.add_option("--threads", arguments.threads)->check(CLI::Range(0, 1024));
    app.add_option("--data", arguments.data);
    CLI11_PARSE(app, argc, argv);
    // As dedloc does: without, the speed is a matter of luck, 9,400 or 13,400 samples a second.
    dedloc::runtime::keep_freed_memory();
    try {
        return dedloc::run_loop(arguments);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "plain_loop: %s\n", error.what());
        return 1;
    }
}
