// Fashion-MNIST together, a peer in C++; python/fashion_mnist.py is the same one in Python, and
// both may be in one run.
//   example_fashion_mnist fashion_mnist.toml DIRECTORY    # prints a join string
//   example_fashion_mnist JOIN_STRING DIRECTORY
#include <cstdio>
#include <filesystem>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "dedloc/monitor/event_log.h"
#include "dedloc/tasks/vision_classifier/vision_models.h"
#include "dedloc/torch_bridge/collaborative_optimizer.h"

namespace {

using namespace dedloc;

constexpr std::int64_t batch_samples = 32;

torch_bridge::TorchBatch all_of(const tasks::LabelledImages& images) {
    std::vector<std::uint32_t> indices(images.count);
    std::iota(indices.begin(), indices.end(), 0u);
    return tasks::image_batch(images, indices, {});
}

double accuracy(const torch_bridge::TorchModel& model, const torch_bridge::TorchBatch& batch) {
    constexpr std::int64_t at_once = 500;
    torch::NoGradGuard no_grad;
    std::vector<torch::Tensor> answers;
    for (const torch::Tensor& part : batch.inputs.split(at_once))
        answers.push_back(model.forward(part).argmax(1));
    return torch::cat(answers).eq(batch.targets).to(torch::kFloat32).mean().item<double>();
}

void train_here(torch_bridge::Session& session,
                const torch_bridge::TorchModel& model,
                const torch_bridge::TorchBatch& data) {
    torch_bridge::CollaborativeOptimizer optimizer(session);
    torch::Tensor order;
    for (std::int64_t at = 0; !optimizer.finished(); at += batch_samples) {
        if (at % data.inputs.size(0) == 0 || at + batch_samples > order.size(0)) {
            order = torch::randperm(data.inputs.size(0));
            at = 0;
        }
        const torch::Tensor batch = order.narrow(0, at, batch_samples);
        optimizer.zero_grad();
        const torch::Tensor loss = torch::cross_entropy_loss(
            model.forward(data.inputs.index_select(0, batch)), data.targets.index_select(0, batch));
        loss.backward();
        if (optimizer.step(batch_samples, loss.item<double>()))
            std::printf("step %lu loss %.4f\n", session.global_step(), loss.item<double>());
    }
}

}  // namespace

int main(int argc, char** argv) try {
    const std::string run = argc > 1 ? argv[1] : "fashion_mnist.toml";
    const std::string directory = argc > 2 ? argv[2] : "dedloc-peer";
    const auto images = tasks::load_fashion_mnist(tasks::fashion_mnist_directory);
    if (!images) throw std::runtime_error(images.error().message());
    const torch_bridge::TorchModel model = tasks::make_vision_model("small_cnn", 1);
    std::filesystem::create_directories(directory);
    const auto events = monitor::EventLog::open(directory + "/events.jsonl");
    if (!events) throw std::runtime_error(events.error().message());

    torch_bridge::JoinOptions options{.directory = directory, .events = events->get()};
    (run.starts_with("dedloc1") ? options.join : options.run_file) = run;
    torch_bridge::Session session = torch_bridge::join(model.module, options);
    std::printf("join: %s\n", session.join_string().c_str());
    std::fflush(stdout);
    torch::manual_seed(session.seed());  // every peer draws other samples
    train_here(session, model, all_of(images->train));
    session.leave();
    std::printf("state %s\n", session.state_hash().c_str());
    std::printf("accuracy %.4f\n", accuracy(model, all_of(images->test)));
} catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
