// A training loop of one peer that hosts a run of its own: real threads and files, no other peer.

#include "dedloc/train/collaborative_optimizer.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <limits>
#include <stdexcept>
#include <torch/nn/modules/batchnorm.h>

namespace dedloc::train {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t micro_batch = 16;
constexpr int batches_a_step = 4;
constexpr double rate = 0.25;

class CollaborativeOptimizerTest : public testing::Test {
  protected:
    CollaborativeOptimizerTest() {
        std::string pattern = (std::filesystem::temp_directory_path() / "dedloc-XXXXXX").string();
        directory_ = ::mkdtemp(pattern.data());
    }
    ~CollaborativeOptimizerTest() override { std::filesystem::remove_all(directory_); }

    Session host(std::shared_ptr<nn::Module> model) const {
        const std::filesystem::path run_file = directory_ / "run.toml";
        std::ofstream(run_file) << "name = \"alone\"\n"
                                << "[batch]\ntarget = " << batches_a_step * micro_batch
                                << "\nmicro = " << micro_batch << "\n"
                                << "[optimizer]\nkind = \"sgd\"\nmomentum = 0\n"
                                << "[schedule]\npeak = " << rate << "\n"
                                << "[averaging]\ncodec = \"fp32\"\n"
                                << "[stop]\nsteps = 2\n";
        return join(std::move(model),
                    {.run_file = run_file,
                     .directory = directory_ / "peer",
                     .listen = {"/ip4/127.0.0.1/tcp/0"}});
    }

    std::filesystem::path directory_;
};

// One number, whose gradient is 1 whatever the sample.
struct NumberModule : nn::Module {
    torch::Tensor number = register_parameter("number", torch::zeros({1}));
};

TEST_F(CollaborativeOptimizerTest, counts_no_samples_of_a_step_that_threw) {
    const auto model = std::make_shared<NumberModule>();
    Session session = host(model);
    CollaborativeOptimizer optimizer(session);
    model->number.mutable_grad() = torch::ones({1}, torch::kMeta);  // has no values to look at
    EXPECT_THROW(optimizer.step(micro_batch), std::exception);
    for (int i = 1; i <= batches_a_step; ++i) {
        optimizer.zero_grad();
        model->number.sum().backward();
        EXPECT_EQ(optimizer.step(micro_batch), i == batches_a_step);
    }
    EXPECT_EQ(session.global_step(), 1u);
    EXPECT_FLOAT_EQ(model->number.item<float>(), -rate);
}

TEST_F(CollaborativeOptimizerTest, a_batch_that_is_not_finite_leaves_no_trace) {
    nn::Sequential model(nn::Linear(2, 3), nn::BatchNorm1d(3), nn::Linear(3, 1));
    Session session = host(model.ptr());
    CollaborativeOptimizer optimizer(session);
    const auto step = [&](double factor) {
        optimizer.zero_grad();
        const torch::Tensor loss = (model->forward(torch::rand({micro_batch, 2}) * factor)).mean();
        loss.backward();
        return optimizer.step(micro_batch, loss.item<double>());
    };
    constexpr double nan = std::numeric_limits<double>::quiet_NaN();
    const auto mean_now = [&] { return model->named_buffers()["1.running_mean"].clone(); };
    const torch::Tensor at_the_start = mean_now();
    EXPECT_FALSE(step(nan));
    EXPECT_TRUE(mean_now().equal(at_the_start));
    EXPECT_FALSE(step(1));
    const torch::Tensor after_one = mean_now();
    EXPECT_FALSE(after_one.equal(at_the_start));
    EXPECT_FALSE(step(nan));
    EXPECT_TRUE(mean_now().equal(after_one));
    for (int i = 2; i <= batches_a_step; ++i) EXPECT_EQ(step(1), i == batches_a_step);
    EXPECT_TRUE(mean_now().isfinite().all().item<bool>());
    for (const torch::Tensor& parameter : model->parameters())
        EXPECT_TRUE(parameter.isfinite().all().item<bool>());
}

TEST_F(CollaborativeOptimizerTest, ends_when_nothing_that_it_is_given_is_finite) {
    const auto model = std::make_shared<NumberModule>();
    Session session = host(model);
    CollaborativeOptimizer optimizer(session);
    int steps = 0;
    try {
        for (; steps < 1000; ++steps) {
            model->number.mutable_grad() =
                torch::full({1}, std::numeric_limits<float>::quiet_NaN());
            optimizer.step(micro_batch);
        }
    } catch (const std::runtime_error& failure) {
        EXPECT_NE(std::string(failure.what()).find("last 64 gradients"), std::string::npos)
            << failure.what();
    }
    EXPECT_EQ(steps, 63);
}

}  // namespace
}  // namespace dedloc::train
