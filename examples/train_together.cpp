// plain_loop.cpp on several computers. The first starts the run and prints a join string:
//   example_train_together RUN_FILE DIRECTORY
// every other one, anywhere, joins with it:
//   example_train_together JOIN_STRING DIRECTORY
#include <csignal>
#include <cstdio>
#include <exception>
#include <string>

#include "dedloc/torch_bridge/collaborative_optimizer.h"

namespace {

volatile std::sig_atomic_t interrupted = 0;

// Ctrl-C leaves in order when step() has returned; once more, at once.
void on_signal(int signal) {
    interrupted = 1;
    if (signal == SIGINT) std::signal(SIGINT, SIG_DFL);
}

}  // namespace

int main(int argc, char** argv) try {
    const std::string run = argc > 1 ? argv[1] : "together.toml";
    const std::string directory = argc > 2 ? argv[2] : "dedloc-peer";
    for (const int signal : {SIGINT, SIGTERM}) std::signal(signal, on_signal);
    torch::nn::Sequential model(
        torch::nn::Linear(2, 32), torch::nn::Tanh(), torch::nn::Linear(32, 1));

    dedloc::torch_bridge::JoinOptions options{.directory = directory};
    (run.starts_with("dedloc1") ? options.join : options.run_file) = run;
    dedloc::torch_bridge::Session session = dedloc::torch_bridge::join(model, options);
    std::printf("join: %s\n", session.join_string().c_str());
    std::fflush(stdout);
    torch::manual_seed(session.seed());  // every peer draws other samples

    dedloc::torch_bridge::CollaborativeOptimizer optimizer(session);
    while (!optimizer.finished() && !interrupted) {
        const torch::Tensor inputs = torch::rand({64, 2}) * 2 - 1;
        const torch::Tensor targets = inputs.select(1, 0) * inputs.select(1, 1);
        optimizer.zero_grad();
        const torch::Tensor loss = torch::mse_loss(model->forward(inputs).squeeze(1), targets);
        loss.backward();
        if (!optimizer.step(inputs.size(0), loss.item<double>())) continue;
        std::printf("step %lu loss %.4f\n", session.global_step(), loss.item<double>());
    }
    session.leave();  // the model has the newest state now: save it, measure it
    std::printf("state %s\n", session.state_hash().c_str());
} catch (const std::exception& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
}
