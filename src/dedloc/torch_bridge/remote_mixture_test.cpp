#include "dedloc/torch_bridge/remote_mixture.h"

#include <cmath>
#include <gtest/gtest.h>

#include "dedloc/experts/experts_testing.h"
#include "dedloc/torch_bridge/torch_expert.h"

namespace dedloc::torch_bridge {
namespace {

using experts::ExpertGrid;
using experts::ExpertUid;
using experts::FfnOptions;
using experts::MixtureOptions;
using experts::testing::Machine;
using experts::testing::Swarm;

constexpr std::int64_t mixture_width = 8;
constexpr std::int64_t answers_count = 5;

Task<void> go_forward(experts::MixtureClient& mixture,
                      experts::Tensor inputs,
                      std::vector<experts::GridScores> scores,
                      Result<MixtureCalls::Passed>& out) {
    out = co_await mixture.forward(std::move(inputs), std::move(scores));
}

Task<void> go_backward(experts::MixtureClient& mixture,
                       MixtureCalls::Passed passed,
                       experts::Tensor outer,
                       MixtureCalls::Gradients& out) {
    out = co_await mixture.backward(std::move(passed), std::move(outer));
}

// Calls through the simulated swarm, from its last machine.
class SwarmCalls final : public MixtureCalls {
  public:
    SwarmCalls(Swarm& swarm, MixtureOptions options)
        : swarm_(swarm),
          client_(*swarm.machines.back()),
          mixture_(client_.node.host(), client_.directory, client_.remote, std::move(options)) {}

    const ExpertGrid& grid() const override { return mixture_.options().grid; }
    Result<Passed> forward(experts::Tensor inputs,
                           std::vector<experts::GridScores> scores) override {
        Result<Passed> passed = Passed();
        swarm_.world.run_task(go_forward(mixture_, std::move(inputs), std::move(scores), passed));
        return passed;
    }
    Result<Gradients> backward(Passed passed, experts::Tensor outer) override {
        Gradients gradients;
        swarm_.world.run_task(
            go_backward(mixture_, std::move(passed), std::move(outer), gradients));
        return gradients;
    }

  private:
    Swarm& swarm_;
    Machine& client_;
    experts::MixtureClient mixture_;
};

FfnOptions adam_expert() {
    FfnOptions options;
    options.width = mixture_width;
    options.hidden = 16;
    options.optimizer = experts::default_optimizer();
    return options;
}

MixtureOptions all_of(std::vector<std::uint32_t> sizes) {
    MixtureOptions options;
    options.grid = {.name = "ffn", .sizes = std::move(sizes)};
    options.best = options.grid.experts_count();
    options.beam_width = options.best;
    return options;
}

void serve_torch(Swarm& swarm, const ExpertGrid& grid, std::size_t servers) {
    std::vector<std::vector<ExpertUid>> at(servers);
    std::size_t next = 0;
    for (const ExpertUid& uid : grid.all()) {
        swarm.machines[next]->server.batcher().add(
            uid.text(), std::make_shared<TorchFfnExpert>(uid, adam_expert()));
        at[next].push_back(uid);
        next = (next + 1) % servers;
    }
    for (std::size_t i = 0; i < servers; ++i)
        swarm.world.run_task(Swarm::declare(*swarm.machines[i], at[i]));
}

// The same layer in this process: all experts, weighed by the softmax of their scores.
struct LocalMixture {
    LocalMixture(const ExpertGrid& of, const torch::nn::Linear& copied)
        : grid(of), gate(mixture_width, copied->weight.size(0)) {
        const torch::NoGradGuard no_grad;
        gate->weight.copy_(copied->weight);
        gate->bias.copy_(copied->bias);
        std::vector<torch::Tensor> all;
        for (const ExpertUid& uid : grid.all()) {
            const TorchFfnExpert fresh(uid, adam_expert());
            const auto values = torch::tensor(fresh.parameters());
            std::vector<torch::Tensor> parts;
            std::int64_t first = 0;
            for (const std::vector<std::int64_t>& shape :
                 std::vector<std::vector<std::int64_t>>{{16, mixture_width},
                                                        {16},
                                                        {mixture_width, 16},
                                                        {mixture_width},
                                                        {mixture_width},
                                                        {mixture_width}}) {
                std::int64_t count = 1;
                for (const std::int64_t size : shape) count *= size;
                parts.push_back(values.slice(0, first, first + count).reshape(shape).clone());
                parts.back().requires_grad_();
                all.push_back(parts.back());
                first += count;
            }
            experts.push_back(std::move(parts));
        }
        torch::optim::AdamWOptions options(adam_expert().optimizer.schedule.peak);
        optimizer = std::make_unique<torch::optim::AdamW>(all, options.weight_decay(0));
    }

    torch::Tensor forward(const torch::Tensor& inputs) {
        const torch::Tensor scores = gate->forward(inputs);
        const auto uids = grid.all();
        std::vector<torch::Tensor> logits;
        std::vector<torch::Tensor> answers;
        for (std::size_t i = 0; i < uids.size(); ++i) {
            const auto& at = uids[i].coordinates;
            logits.push_back(scores.select(1, at[0]) + scores.select(1, grid.sizes[0] + at[1]));
            answers.push_back(ffn_block(inputs, experts[i]));
        }
        const torch::Tensor weights = torch::softmax(torch::stack(logits, 1), 1).unsqueeze(2);
        return (weights * torch::stack(answers, 1)).sum(1);
    }

    ExpertGrid grid;
    torch::nn::Linear gate;
    std::vector<std::vector<torch::Tensor>> experts;
    std::unique_ptr<torch::optim::AdamW> optimizer;
};

struct SmallTrunk {
    SmallTrunk() {
        torch::manual_seed(4);
        first = torch::nn::Linear(6, mixture_width);
        last = torch::nn::Linear(mixture_width, answers_count);
    }
    torch::nn::Linear first{nullptr};
    torch::nn::Linear last{nullptr};
};

std::vector<torch::Tensor> parameters_of(const SmallTrunk& trunk, const torch::nn::Linear& gate) {
    std::vector<torch::Tensor> all;
    for (const auto& layer : {trunk.first, gate, trunk.last})
        for (const auto& parameter : layer->parameters()) all.push_back(parameter);
    return all;
}

template <typename Layer>
torch::Tensor loss_of(SmallTrunk& trunk, Layer&& layer, const torch::Tensor& inputs) {
    const torch::Tensor hidden = torch::tanh(trunk.first->forward(inputs));
    const torch::Tensor outputs = trunk.last->forward(hidden + layer(hidden));
    const torch::Tensor targets = inputs.slice(1, 0, answers_count).argmax(1);
    return torch::nn::functional::cross_entropy(outputs, targets);
}

TEST(RemoteMixture, learns_as_a_mixture_in_one_process_does_for_fifty_steps) {
    Swarm swarm(4);
    const MixtureOptions options = all_of({2, 3});
    serve_torch(swarm, options.grid, 3);
    SmallTrunk remote_trunk;
    SmallTrunk local_trunk;
    RemoteMixture remote(mixture_width, std::make_shared<SwarmCalls>(swarm, options));
    LocalMixture local(options.grid, remote->gate);
    const auto trunk_rate = torch::optim::SGDOptions(0.1);
    torch::optim::SGD remote_optimizer(parameters_of(remote_trunk, remote->gate), trunk_rate);
    torch::optim::SGD local_optimizer(parameters_of(local_trunk, local.gate), trunk_rate);
    double first = 0;
    double last = 0;
    for (int step = 0; step < 50; ++step) {
        const torch::Tensor inputs = torch::randn({32, 6});
        const torch::Tensor a = loss_of(
            remote_trunk, [&](const torch::Tensor& rows) { return remote->forward(rows); }, inputs);
        const torch::Tensor b = loss_of(
            local_trunk, [&](const torch::Tensor& rows) { return local.forward(rows); }, inputs);
        ASSERT_NEAR(a.item<double>(), b.item<double>(), 1e-4) << step;
        remote_optimizer.zero_grad();
        local_optimizer.zero_grad();
        local.optimizer->zero_grad();
        a.backward();
        b.backward();
        remote_optimizer.step();
        local_optimizer.step();
        local.optimizer->step();
        if (step == 0) first = a.item<double>();
        last = a.item<double>();
    }
    EXPECT_LT(last, 0.8 * first);
}

TEST(RemoteMixture, outputs_are_not_numbers_when_nobody_serves_an_expert) {
    Swarm swarm(2);
    RemoteMixture layer(mixture_width, std::make_shared<SwarmCalls>(swarm, all_of({2, 2})));
    const torch::Tensor outputs = layer->forward(torch::randn({3, mixture_width}));
    EXPECT_TRUE(outputs.isnan().all().item<bool>());
}

TEST(RemoteMixture, an_evaluation_updates_no_expert) {
    Swarm swarm(3);
    const MixtureOptions options = all_of({2, 2});
    serve_torch(swarm, options.grid, 2);
    RemoteMixture layer(mixture_width, std::make_shared<SwarmCalls>(swarm, options));
    const torch::NoGradGuard no_grad;
    const torch::Tensor inputs = torch::randn({3, mixture_width});
    const torch::Tensor once = layer->forward(inputs);
    EXPECT_TRUE(torch::equal(once, layer->forward(inputs)));
    EXPECT_EQ(swarm.machines[0]->server.batcher().counts().updates, 0u);
    EXPECT_GT(swarm.machines[0]->server.batcher().counts().calls, 0u);
}

}  // namespace
}  // namespace dedloc::torch_bridge
