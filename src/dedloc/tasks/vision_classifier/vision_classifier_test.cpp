#include <cmath>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <numeric>
#include <torch/script.h>

#include "dedloc/optim/optimizer.h"
#include "dedloc/tasks/fashion_mnist.h"
#include "dedloc/tasks/safetensors.h"
#include "dedloc/tasks/tasks_testing.h"
#include "dedloc/tasks/training_task.h"
#include "dedloc/tasks/vision_classifier/vision_models.h"
#include "dedloc/torch_bridge/flat_module.h"

namespace dedloc::tasks {
namespace {

class VisionClassifierTest : public testing::Test {
  protected:
    void SetUp() override {
        if (!std::filesystem::exists(fashion_mnist_directory)) {
            GTEST_SKIP() << "wants the Debian package dataset-fashion-mnist";
        }
    }
    static std::unique_ptr<train::SampledModel> learner(const std::string& model,
                                                        const std::string& data = "fashion-mnist") {
        const auto task = make_task({.kind = "vision_classifier", .model = model, .data = data},
                                    {.device = "cpu", .threads_count = 1});
        EXPECT_TRUE(task);
        return *(*task)->learner(made_peer(1));
    }
};

TEST_F(VisionClassifierTest, has_the_sizes_it_says) {
    EXPECT_EQ(learner("small_cnn")->layout().parameters_count, 105'866u);
    EXPECT_EQ(learner("small_cnn")->layout().buffers_count, 0u);
    EXPECT_EQ(learner("mlp")->layout().parameters_count, 50'890u);
    EXPECT_EQ(learner("cnn_bn")->layout().parameters_count, 105'962u);
    EXPECT_EQ(learner("cnn_bn")->layout().buffers_count, 96u);
}

TEST_F(VisionClassifierTest, starts_every_host_with_the_seeds_model) {
    const auto one = learner("small_cnn");
    const auto two = learner("small_cnn");
    std::vector<float> first(105'866);
    std::vector<float> second(105'866);
    one->store(first, {});
    two->store(second, {});
    EXPECT_EQ(first, second);
}

// 30 steps of SGD on batches of `batch`; the mean loss of each. The model is left at the last one.
std::vector<double> train(train::SampledModel& model, std::uint64_t batch) {
    const run::Layout layout = model.layout();
    std::vector<float> parameters(layout.parameters_count);
    std::vector<float> gradient(layout.parameters_count);
    std::vector<float> momentum(layout.parameters_count);
    model.store(parameters, {});
    optim::OptimizerConfig config;
    config.schedule.peak = 0.05;
    const std::span<float> moment(momentum);
    std::vector<double> losses;
    for (std::uint64_t step = 0; step < 30; ++step) {
        model.load(parameters, {});
        const auto report = model.accumulate({step * batch, (step + 1) * batch});
        EXPECT_TRUE(report) << report.error().message();
        if (!report) break;
        losses.push_back(report->loss_sum / static_cast<double>(batch));
        model.take(gradient, {}, batch);
        for (float& value : gradient) value /= static_cast<float>(batch);
        (void)optim::step(
            config, layout.parameters, step, parameters, gradient, std::span(&moment, 1));
    }
    model.load(parameters, {});
    return losses;
}

TEST_F(VisionClassifierTest, learns) {
    for (const std::string data : {"fashion-mnist", "fashion-mnist+flip"}) {
        const auto model = learner("small_cnn", data);
        const std::vector<double> losses = train(*model, 128);
        ASSERT_EQ(losses.size(), 30u);
        const double last_loss = losses.back();
        const auto evaluation = model->evaluate();
        ASSERT_TRUE(evaluation);
        EXPECT_EQ(evaluation->samples, 10'000u);
        EXPECT_LT(last_loss, 1.2) << data;  // ln 10 = 2.3 at the start
        EXPECT_GT(evaluation->accuracy, 0.6) << data;
    }
}

// The same 30 steps in both precisions: nearly the same loss on held-out data.
TEST_F(VisionClassifierTest, learns_in_mixed_precision_as_well) {
    const auto loss_in = [](const std::string& precision) {
        const auto task = make_task({.kind = "vision_classifier",
                                     .model = "small_cnn",
                                     .data = "fashion-mnist",
                                     .precision = precision},
                                    {.device = "cpu", .threads_count = 1});
        EXPECT_TRUE(task);
        EXPECT_TRUE((*task)->description().ends_with(precision)) << (*task)->description();
        const auto model = *(*task)->learner(made_peer(1));
        const std::vector<double> losses = train(*model, 64);
        return std::vector<double>{losses.at(0), model->evaluate()->loss};
    };
    const std::vector<double> fp32 = loss_in("fp32");
    const std::vector<double> bf16 = loss_in("bf16");
    EXPECT_NE(fp32[0], bf16[0]);  // it does compute differently
    EXPECT_NEAR(bf16[0] / fp32[0], 1, 0.01);
    EXPECT_LT(fp32[1], 1.3);  // ln 10 = 2.3 at the start
    EXPECT_NEAR(bf16[1] / fp32[1], 1, 0.05) << fp32[1];
}

TEST_F(VisionClassifierTest, computes_the_same_gradient_for_the_same_numbers) {
    const auto one = learner("cnn_bn");
    const auto two = learner("cnn_bn");
    std::vector<float> parameters(105'962);
    std::vector<float> buffers(96);
    one->store(parameters, buffers);
    std::vector<float> first(105'962);
    std::vector<float> second(105'962);
    for (auto& [model, gradient] : {std::pair(one.get(), &first), std::pair(two.get(), &second)}) {
        model->load(parameters, buffers);
        ASSERT_TRUE(model->accumulate({59'990, 60'020}));  // over the end of an epoch
        std::vector<float> rest(96);
        model->take(*gradient, rest, 30);
    }
    double difference = 0;
    double size = 0;
    for (std::size_t i = 0; i < first.size(); ++i) {
        difference += std::pow(static_cast<double>(first[i] - second[i]), 2);
        size += std::pow(static_cast<double>(first[i]), 2);
    }
    EXPECT_GT(size, 0);
    EXPECT_LT(std::sqrt(difference / size), 1e-6);
}

TEST(TrainingTask, names_what_it_knows_when_asked_for_something_else) {
    const TaskOptions options{.device = "cpu", .threads_count = 1};
    const auto kind = make_task({.kind = "chess"}, options);
    ASSERT_FALSE(kind);
    EXPECT_EQ(kind.error().kind(), ErrorKind::bad_input);
    EXPECT_NE(kind.error().message().find("vision_classifier"), std::string::npos);
    const auto model = make_task({.kind = "vision_classifier", .model = "huge_cnn"}, options);
    ASSERT_FALSE(model);
    EXPECT_NE(model.error().message().find("small_cnn"), std::string::npos);
    const auto data =
        make_task({.kind = "vision_classifier", .model = "small_cnn", .data = "imagenet"}, options);
    ASSERT_FALSE(data);
    EXPECT_NE(data.error().message().find("fashion-mnist"), std::string::npos);
    const auto missing =
        make_task(run::default_task(), {.device = "cpu", .data_directory = "/nonexistent"});
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().kind(), ErrorKind::not_found);
    const auto device = make_task(run::default_task(), {.device = "abacus"});
    ASSERT_FALSE(device);
    EXPECT_EQ(device.error().kind(), ErrorKind::bad_input);
}

TEST_F(VisionClassifierTest, exports_its_numbers_under_pytorchs_names) {
    const auto task =
        make_task({.kind = "vision_classifier", .model = "cnn_bn", .data = "fashion-mnist"},
                  {.device = "cpu"})
            .value();
    const auto model = task->learner(made_peer(1)).value();
    std::vector<float> parameters(model->layout().parameters_count);
    std::vector<float> buffers(model->layout().buffers_count);
    model->store(parameters, buffers);
    buffers.back() = 7;
    std::string folder = "/tmp/dedloc-vision-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    const auto names = task->export_model(parameters, buffers, folder);
    ASSERT_TRUE(names) << names.error().message();
    ASSERT_EQ(*names, (std::vector<std::string>{"model.safetensors", "config.json", "model.pt"}));
    // TorchScript computes what the model does, and the words say what it is.
    model->load(parameters, buffers);
    auto script = torch::jit::load(folder + "/model.pt");
    const auto data = load_fashion_mnist(fashion_mnist_directory).value();
    std::vector<std::uint32_t> shown(256);
    std::iota(shown.begin(), shown.end(), 0u);
    const auto batch = image_batch(data.test, shown, {});
    const torch::Tensor scores = script.forward({batch.inputs}).toTensor();
    const torch_bridge::TorchModel same = make_vision_model("cnn_bn", 1);
    auto flat = torch_bridge::FlatModule::make(same.module).value();
    flat.load(parameters, buffers);
    same.module->eval();
    EXPECT_TRUE(torch::allclose(scores, same.forward(batch.inputs), 1e-4, 1e-5));
    std::ifstream config(folder + "/config.json");
    const std::string words{std::istreambuf_iterator<char>(config), {}};
    for (const char* part : {"\"cnn_bn\"", "batch_norm 16", "\"mean\": [0.2860]", "Ankle boot"})
        EXPECT_NE(words.find(part), std::string::npos) << words;
    std::ifstream stream(folder + "/model.safetensors", std::ios::binary);
    const Bytes file{std::istreambuf_iterator<char>(stream), {}};
    std::filesystem::remove_all(folder);
    const auto weights = parse_safetensors(file);
    ASSERT_TRUE(weights) << weights.error().message();
    const Safetensor kernel = weights->find("0.weight").value();
    EXPECT_EQ(kernel.shape, (std::vector<std::int64_t>{16, 1, 3, 3}));
    const std::vector<float> values = kernel.floats().value();
    EXPECT_TRUE(std::equal(values.begin(), values.end(), parameters.begin()));
    EXPECT_EQ(weights->find("4.running_var").value().floats().value().back(), 7);
    EXPECT_EQ(weights->find("9.bias").value().shape, std::vector<std::int64_t>{10});
    EXPECT_FALSE(task->export_model(parameters, {}, "/tmp"));
    EXPECT_FALSE(task->export_model(parameters, buffers, "/tmp/dedloc-nowhere"));
}

}  // namespace
}  // namespace dedloc::tasks
