// A plain libtorch training loop; train_together.cpp beside it is the same loop, shared.
#include <cstdio>
#include <torch/nn.h>
#include <torch/optim.h>

int main() {
    torch::nn::Sequential model(
        torch::nn::Linear(2, 32), torch::nn::Tanh(), torch::nn::Linear(32, 1));
    torch::optim::SGD optimizer(model->parameters(), 0.1);
    for (int step = 0; step < 200; ++step) {
        const torch::Tensor inputs = torch::rand({64, 2}) * 2 - 1;
        const torch::Tensor targets = inputs.select(1, 0) * inputs.select(1, 1);
        optimizer.zero_grad();
        const torch::Tensor loss = torch::mse_loss(model->forward(inputs).squeeze(1), targets);
        loss.backward();
        optimizer.step();
        if (step % 50 == 49) std::printf("step %d loss %.4f\n", step + 1, loss.item<double>());
    }
}
