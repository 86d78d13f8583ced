#include "dedloc/torch_bridge/torch_learner.h"

#include <cmath>
#include <functional>
#include <gtest/gtest.h>
#include <limits>
#include <numeric>
#include <stdexcept>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/embedding.h>

#include "dedloc/optim/optimizer.h"
#include "dedloc/replica/model_state.h"
#include "dedloc/torch_bridge/autocast.h"
#include "dedloc/torch_bridge/device.h"
#include "dedloc/torch_bridge/loss_scale.h"
#include "dedloc/train/accumulation.h"

namespace dedloc::torch_bridge {
namespace {

namespace nn = torch::nn;

constexpr std::int64_t features = 12;
constexpr std::int64_t classes = 5;
constexpr std::uint64_t samples_count = 4096;

struct Data {
    torch::Tensor inputs;
    torch::Tensor targets;
};

Data made_data() {
    torch::manual_seed(7);
    Data data;
    data.inputs = torch::randn({static_cast<std::int64_t>(samples_count), features});
    data.targets = torch::randint(classes, {static_cast<std::int64_t>(samples_count)});
    return data;
}

TorchModel made_model(bool batch_norm) {
    torch::manual_seed(3);
    nn::Sequential network(nn::Linear(features, 24));
    if (batch_norm) network->push_back(nn::BatchNorm1d(24));
    network->push_back(nn::Tanh());
    network->push_back(nn::Linear(24, classes));
    return {.module = network.ptr(), .forward = [network](const torch::Tensor& inputs) mutable {
                return network->forward(inputs);
            }};
}

TorchParts made_parts(const Data& data, bool batch_norm = false) {
    const auto slice = [data](collab::CounterRange range) -> Result<TorchBatch> {
        const auto begin = static_cast<std::int64_t>(range.begin);
        const auto end = static_cast<std::int64_t>(range.end);
        return TorchBatch{data.inputs.slice(0, begin, end), data.targets.slice(0, begin, end)};
    };
    TorchParts parts;
    parts.make_model = [batch_norm] { return made_model(batch_norm); };
    parts.train_batch = slice;
    parts.held_out_batch = slice;
    parts.held_out_count = 1200;
    parts.loss = classification_loss;
    return parts;
}

std::unique_ptr<train::SampledModel> made_learner(const Data& data, bool batch_norm = false) {
    Result<std::unique_ptr<train::SampledModel>> learner =
        make_torch_learner(made_parts(data, batch_norm));
    return *std::move(learner);
}

double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
    double difference = 0;
    double size = 0;
    for (std::size_t i = 0; i < a.size(); ++i) {
        difference += std::pow(static_cast<double>(a[i]) - static_cast<double>(b[i]), 2);
        size += std::pow(static_cast<double>(b[i]), 2);
    }
    return std::sqrt(difference / size);
}

TEST(FlatModule, gives_back_what_was_loaded_and_knows_what_decays) {
    const TorchModel model = made_model(true);
    Result<FlatModule> flat = FlatModule::make(model.module);
    ASSERT_TRUE(flat);
    const run::Layout& layout = flat->layout();
    EXPECT_EQ(layout.parameters_count, 12u * 24 + 24 + 24 + 24 + 24 * 5 + 5);
    EXPECT_EQ(layout.buffers_count, 48u);  // running mean and variance; nothing reads the counter
    ASSERT_EQ(layout.parameters.size(), 6u);
    EXPECT_TRUE(optim::check(layout.parameters, layout.parameters_count));
    const std::vector<std::pair<std::string, bool>> expected = {{"0.weight", true},
                                                                {"0.bias", false},
                                                                {"1.weight", false},
                                                                {"1.bias", false},
                                                                {"3.weight", true},
                                                                {"3.bias", false}};
    for (std::size_t i = 0; i < expected.size(); ++i) {
        EXPECT_EQ(layout.parameters[i].name, expected[i].first);
        EXPECT_EQ(layout.parameters[i].decay, expected[i].second) << expected[i].first;
    }

    std::vector<float> parameters(layout.parameters_count);
    std::vector<float> buffers(layout.buffers_count);
    std::iota(parameters.begin(), parameters.end(), 1.0f);
    std::iota(buffers.begin(), buffers.end(), -100.0f);
    flat->load(parameters, buffers);
    EXPECT_EQ(model.module->named_parameters()["0.bias"][0].item<float>(), 1.0f + 12 * 24);
    std::vector<float> parameters_back(parameters.size());
    std::vector<float> buffers_back(buffers.size());
    flat->store(parameters_back, buffers_back);
    EXPECT_EQ(parameters_back, parameters);
    EXPECT_EQ(buffers_back, buffers);
}

TEST(FlatModule, refuses_a_model_that_is_not_fp32_by_name) {
    const TorchModel model = made_model(false);
    model.module->to(torch::kFloat64);
    const Result<FlatModule> flat = FlatModule::make(model.module);
    ASSERT_FALSE(flat);
    EXPECT_EQ(flat.error().kind(), ErrorKind::unsupported);
    EXPECT_NE(flat.error().message().find("0.weight"), std::string::npos);
}

TEST(FlatModule, counts_tied_weights_once) {
    nn::Linear shared(4, 4);
    nn::Sequential network(shared, nn::Tanh(), shared);
    const Result<FlatModule> flat = FlatModule::make(network.ptr());
    ASSERT_TRUE(flat);
    EXPECT_EQ(flat->layout().parameters_count, 20u);
}

TEST(FlatModule, adds_scaled_gradients_until_they_are_taken) {
    nn::Linear layer(1, 1);
    Result<FlatModule> flat = FlatModule::make(layer.ptr());
    ASSERT_TRUE(flat);
    const torch::Tensor input = torch::full({1, 1}, 2.0f);
    layer->forward(input).sum().backward();
    flat->add_gradients(3);
    layer->forward(input).sum().backward();
    flat->add_gradients(5);
    std::vector<float> sums(2);
    flat->take_sums(sums);
    EXPECT_EQ(sums, (std::vector<float>{16, 8}));
    flat->take_sums(sums);
    EXPECT_EQ(sums, (std::vector<float>{0, 0}));
}

TEST(FlatModule, whole_numbers_move_by_the_average_of_their_changes) {
    nn::BatchNorm1d norm(nn::BatchNormOptions(2).momentum(c10::nullopt));
    norm->register_buffer("flag", torch::zeros({1}, torch::kBool));
    norm->register_buffer("table", torch::arange(integer_elements_max + 1));
    Result<FlatModule> flat = FlatModule::make(norm.ptr());
    ASSERT_TRUE(flat);
    const run::Layout& layout = flat->layout();
    ASSERT_EQ(layout.buffers_count, 2u + 2 + 1 + 1) << "a table is a constant";
    const auto counter = [&] { return norm->num_batches_tracked.item<std::int64_t>(); };
    const std::vector<float> parameters(layout.parameters_count, 1.0f);
    // mean, variance, counter, flag: as after a step in which one peer of two computed more.
    flat->load(parameters, std::vector<float>{0, 0, 1, 1, 160.5f, 0.75f});
    EXPECT_EQ(counter(), 160);
    EXPECT_TRUE(norm->named_buffers()["flag"].item<bool>());
    for (int i = 0; i < 3; ++i) norm->forward(torch::randn({4, 2}));
    EXPECT_EQ(counter(), 163);
    std::vector<float> change(layout.buffers_count);
    flat->take_buffer_changes(change, 10);
    EXPECT_EQ(change[4], 30);
    EXPECT_EQ(change[5], 0) << "what it is, not what the state's fraction was";
}

TEST(FlatModule, counters_that_nothing_reads_are_there_on_request) {
    const TorchModel model = made_model(true);
    Result<FlatModule> flat = FlatModule::make(model.module, {.unread_counters = true});
    ASSERT_TRUE(flat);
    EXPECT_EQ(flat->layout().buffers_count, 49u);
}

TEST(FlatModule, leaves_private_buffers_alone) {
    nn::Linear layer(1, 1);
    layer->register_buffer("queue", torch::zeros({3}));
    layer->register_buffer("pointer", torch::zeros({1}, torch::kLong));
    Result<FlatModule> flat =
        FlatModule::make(layer.ptr(), {.private_buffers = {"queue", "pointer"}});
    ASSERT_TRUE(flat);
    EXPECT_EQ(flat->layout().buffers_count, 0u);
    layer->named_buffers()["queue"].fill_(7);
    flat->remember_buffers();
    flat->restore_buffers();
    flat->load(std::vector<float>(2), {});
    EXPECT_EQ(layer->named_buffers()["queue"][0].item<float>(), 7);
    const auto wrong = FlatModule::make(layer.ptr(), {.private_buffers = {"queu"}});
    ASSERT_FALSE(wrong);
    EXPECT_NE(wrong.error().message().find("'queu', which is no buffer"), std::string::npos);
}

TEST(FlatModule, refuses_whole_numbers_that_fp32_does_not_hold) {
    nn::Linear layer(1, 1);
    layer->register_buffer("seeds", torch::full({2}, (1 << 24) + 2, torch::kLong));
    const Result<FlatModule> flat = FlatModule::make(layer.ptr());
    ASSERT_FALSE(flat);
    EXPECT_NE(flat.error().message().find("'seeds' holds whole numbers beyond 16777216"),
              std::string::npos)
        << flat.error().message();
}

TEST(FlatModule, takes_sparse_gradients_as_dense_ones) {
    nn::Embedding rows(nn::EmbeddingOptions(5, 2).sparse(true));
    Result<FlatModule> flat = FlatModule::make(rows.ptr());
    ASSERT_TRUE(flat);
    const auto compute = [&] {
        rows->forward(torch::tensor({1, 1, 4}, torch::kLong)).sum().backward();
    };
    compute();
    EXPECT_FALSE(flat->gradients_are_sound(2.0)) << "its length is √10";
    EXPECT_TRUE(flat->gradients_are_sound(4.0));
    flat->add_gradients(1);
    compute();
    flat->add_gradients(2);
    std::vector<float> sums(10);
    flat->take_sums(sums);
    EXPECT_EQ(sums, (std::vector<float>{0, 0, 6, 6, 0, 0, 0, 0, 3, 3}));
    compute();
    flat->take_gradients(sums);
    EXPECT_EQ(sums, (std::vector<float>{0, 0, 2, 2, 0, 0, 0, 0, 1, 1}));
}

TEST(TorchLearner, adds_up_micro_batches_to_the_gradient_of_the_whole) {
    const Data data = made_data();
    const auto learner = made_learner(data);
    double loss_sum = 0;
    for (const collab::CounterRange range : {collab::CounterRange{0, 10},
                                             collab::CounterRange{10, 64},
                                             collab::CounterRange{64, 100}}) {
        const Result<train::GradientReport> report = learner->accumulate(range);
        ASSERT_TRUE(report);
        loss_sum += report->loss_sum;
    }
    std::vector<float> sum(learner->layout().parameters_count);
    learner->take(sum, {}, 100);

    const TorchModel model = made_model(false);
    const torch::Tensor loss = nn::functional::cross_entropy(
        model.forward(data.inputs.slice(0, 0, 100)), data.targets.slice(0, 0, 100));
    loss.backward();
    std::vector<float> expected;
    for (const torch::Tensor& parameter : model.module->parameters()) {
        const torch::Tensor gradient = (parameter.grad() * 100).reshape({-1});
        expected.insert(expected.end(),
                        gradient.data_ptr<float>(),
                        gradient.data_ptr<float>() + gradient.numel());
    }
    EXPECT_NEAR(loss_sum, loss.item<double>() * 100, 1e-3);
    EXPECT_LT(relative_difference(sum, expected), 1e-6);
    learner->take(sum, {}, 100);
    EXPECT_EQ(sum, std::vector<float>(sum.size()));
}

TEST(TorchLearner, hands_over_the_buffers_change_by_samples_once) {
    const Data data = made_data();
    const auto learner = made_learner(data, true);
    const run::Layout layout = learner->layout();
    std::vector<float> parameters(layout.parameters_count);
    std::vector<float> buffers(layout.buffers_count);
    learner->store(parameters, buffers);
    ASSERT_TRUE(learner->accumulate({0, 200}));
    std::vector<float> sum(layout.parameters_count);
    std::vector<float> buffers_sum(layout.buffers_count);
    learner->take(sum, buffers_sum, 200);
    const std::vector<float> nothing(buffers.size(), 0.0f);
    EXPECT_NE(buffers_sum, nothing);
    learner->take(sum, buffers_sum, 1);
    EXPECT_EQ(buffers_sum, nothing) << "it has been handed over";
    ASSERT_TRUE(learner->accumulate({200, 400}));
    learner->load(parameters, buffers);
    learner->take(sum, buffers_sum, 1);
    EXPECT_EQ(buffers_sum, nothing) << "the change of what was given up is none";
    // Evaluating must not move BatchNorm's statistics.
    ASSERT_TRUE(learner->evaluate());
    learner->take(sum, buffers_sum, 1);
    EXPECT_EQ(buffers_sum, nothing);
}

// Values that travel through fp16 each step walk away from where they were: by 2 % in 3,000 steps.
TEST(TorchLearner, buffers_that_never_change_keep_their_bits_in_every_codec) {
    TorchParts parts = made_parts(made_data());
    parts.make_model = [] {
        TorchModel model = made_model(false);
        model.module->register_buffer("constants", torch::tensor({0.406f, 1e-3f, 70'000.0f}));
        return model;
    };
    Result<std::unique_ptr<train::SampledModel>> made = make_torch_learner(parts);
    ASSERT_TRUE(made);
    const std::unique_ptr<train::SampledModel> learner = *std::move(made);
    const run::Layout layout = learner->layout();
    ASSERT_EQ(layout.buffers_count, 3u);
    std::vector<float> parameters(layout.parameters_count);
    std::vector<float> buffers(3);
    learner->store(parameters, buffers);
    learner->load(parameters, buffers);
    std::vector<float> gradient(layout.parameters_count);
    std::vector<float> change(3);
    for (std::uint64_t step = 0; step < 20; ++step) {
        ASSERT_TRUE(learner->accumulate({step * 7, step * 7 + 7}));
        if (step % 3 == 0) learner->load(parameters, buffers);
        learner->take(gradient, change, 7);
        EXPECT_EQ(change, std::vector<float>(3, 0.0f));
    }
}

TEST(TorchLearner, keeps_its_sums_when_it_moves_to_another_state) {
    const Data data = made_data();
    const auto learner = made_learner(data, true);
    const auto other = made_learner(data, true);
    const run::Layout layout = learner->layout();
    std::vector<float> parameters(layout.parameters_count);
    std::vector<float> buffers(layout.buffers_count);
    learner->store(parameters, buffers);
    std::vector<float> moved = parameters;
    for (float& value : moved) value *= 1.25f;
    std::vector<float> sum(parameters.size());
    std::vector<float> buffers_sum(buffers.size());
    std::vector<float> before(sum.size());
    std::vector<float> after(sum.size());
    other->load(parameters, buffers);
    ASSERT_TRUE(other->accumulate({0, 50}));
    std::vector<float> buffers_before(buffers.size());
    other->take(before, buffers_before, 50);
    other->load(moved, buffers);
    ASSERT_TRUE(other->accumulate({50, 100}));
    std::vector<float> buffers_after(buffers.size());
    other->take(after, buffers_after, 50);

    const auto state_of = [&](const std::vector<float>& values) {
        return *replica::initial_state(run::RunFile{}, layout, values, buffers);
    };
    train::GradientSum accumulation(*learner);
    accumulation.begin_at(*state_of(parameters));
    ASSERT_TRUE(learner->accumulate({0, 50}));
    ASSERT_TRUE(accumulation.added(50));
    accumulation.move_to(*state_of(moved));
    ASSERT_TRUE(learner->accumulate({50, 100}));
    ASSERT_TRUE(accumulation.added(50));
    accumulation.take(sum, buffers_sum, 100);
    for (std::size_t i = 0; i < after.size(); ++i) after[i] += before[i];
    EXPECT_LT(relative_difference(sum, after), 1e-6);
    EXPECT_NE(before, sum);
    // BatchNorm's statistics start again from those of the new state; none are lost.
    for (std::size_t i = 0; i < buffers.size(); ++i)
        EXPECT_FLOAT_EQ(buffers_sum[i], buffers_before[i] + buffers_after[i]);
    accumulation.take(sum, buffers_sum, 1);
    EXPECT_EQ(buffers_sum, std::vector<float>(buffers.size(), 0.0f)) << "and only once";
}

void expect_same_sums(train::SampledModel& one, train::SampledModel& other, std::uint64_t samples) {
    const run::Layout layout = one.layout();
    std::vector<float> sum(layout.parameters_count);
    std::vector<float> buffers(layout.buffers_count);
    std::vector<float> other_sum(sum.size());
    std::vector<float> other_buffers(buffers.size());
    one.take(sum, buffers, samples);
    other.take(other_sum, other_buffers, samples);
    EXPECT_EQ(sum, other_sum);
    EXPECT_EQ(buffers, other_buffers);
}

// Two kinds of poison: a loss that is not a number, and a finite loss whose gradient is none.
TEST(TorchLearner, a_micro_batch_that_is_not_finite_leaves_no_trace) {
    const Data data = made_data();
    const std::vector<std::function<torch::Tensor(torch::Tensor)>> poisons = {
        [](torch::Tensor inputs) { return inputs * std::numeric_limits<float>::quiet_NaN(); },
        [](torch::Tensor inputs) { return inputs * std::numeric_limits<float>::infinity(); }};
    for (const auto& poison : poisons) {
        TorchParts parts = made_parts(data, true);
        parts.train_batch = [&](collab::CounterRange range) -> Result<TorchBatch> {
            const auto begin = static_cast<std::int64_t>(range.begin);
            const auto end = static_cast<std::int64_t>(range.end);
            torch::Tensor inputs = data.inputs.slice(0, begin, end);
            if (range.begin == 50) inputs = poison(inputs);
            return TorchBatch{inputs, data.targets.slice(0, begin, end)};
        };
        const auto learner = *make_torch_learner(std::move(parts));
        const auto clean = made_learner(data, true);
        for (const std::uint64_t begin : {0, 50, 100}) {
            const auto report = learner->accumulate({begin, begin + 50});
            ASSERT_TRUE(report);
            EXPECT_EQ(report->finite, begin != 50);
            EXPECT_TRUE(std::isfinite(report->loss_sum));
            if (begin == 50) continue;
            ASSERT_TRUE(clean->accumulate({begin, begin + 50}));
        }
        expect_same_sums(*learner, *clean, 100);
    }
}

// Owners would refuse what it is in, all of it.
TEST(TorchLearner, a_micro_batch_whose_mean_gradient_is_too_long_leaves_no_trace) {
    const Data data = made_data();
    bool is_long = false;
    TorchParts parts = made_parts(data, true);
    parts.loss = [&](const torch::Tensor& outputs, const torch::Tensor& targets) {
        TorchLoss loss = classification_loss(outputs, targets);
        if (is_long) loss.sum = loss.sum * 1e6;
        return loss;
    };
    const auto learner = *make_torch_learner(std::move(parts));
    const auto clean = made_learner(data, true);
    learner->limit_norm(1000);
    for (const std::uint64_t begin : {0, 50, 100}) {
        is_long = begin == 50;
        const auto report = learner->accumulate({begin, begin + 50});
        ASSERT_TRUE(report);
        EXPECT_EQ(report->finite, !is_long);
        if (is_long) continue;
        ASSERT_TRUE(clean->accumulate({begin, begin + 50}));
    }
    expect_same_sums(*learner, *clean, 100);
    learner->limit_norm(0);
    is_long = true;
    EXPECT_TRUE(learner->accumulate({150, 200})->finite);
}

// The network has been passed by then, so BatchNorm has counted the samples; and of an answer that
// cannot be read (a meta tensor has no values), the loss is known.
TEST(TorchLearner, a_micro_batch_that_fails_leaves_no_trace) {
    const Data data = made_data();
    const std::vector<std::function<TorchLoss(TorchLoss)>> failures = {
        [](TorchLoss) -> TorchLoss { throw std::runtime_error("CUDA out of memory."); },
        [](TorchLoss loss) {
            loss.correct = torch::empty({}, torch::kMeta);
            return loss;
        }};
    for (const auto& fails : failures) {
        TorchParts parts = made_parts(data, true);
        parts.loss = [&](const torch::Tensor& outputs, const torch::Tensor& targets) {
            const TorchLoss loss = classification_loss(outputs, targets);
            return outputs.size(0) > 50 ? fails(loss) : loss;
        };
        const auto learner = *make_torch_learner(std::move(parts));
        const auto clean = made_learner(data, true);
        EXPECT_FALSE(learner->accumulate({0, 100}));
        for (const std::uint64_t begin : {0, 50}) {
            ASSERT_TRUE(learner->accumulate({begin, begin + 50}));
            ASSERT_TRUE(clean->accumulate({begin, begin + 50}));
        }
        expect_same_sums(*learner, *clean, 100);
    }
}

// As a device that broke: nothing works on it any more.
TEST(TorchLearner, says_so_when_it_cannot_take_back_what_failed) {
    TorchParts parts = made_parts(made_data(), true);
    std::shared_ptr<nn::Module> module;
    parts.make_model = [&] {
        TorchModel model = made_model(true);
        module = model.module;
        return model;
    };
    parts.loss = [&](const torch::Tensor&, const torch::Tensor&) -> TorchLoss {
        module->named_buffers()["1.running_mean"].resize_({3});
        throw std::runtime_error("an illegal memory access was encountered");
    };
    const auto learner = *make_torch_learner(std::move(parts));
    const auto report = learner->accumulate({0, 50});
    ASSERT_FALSE(report);
    EXPECT_NE(report.error().message().find("taking back a gradient"), std::string::npos);
}

TEST(TorchLearner, a_finite_loss_with_a_gradient_that_is_not_leaves_no_trace) {
    TorchParts parts = made_parts(made_data());
    // The square root of 0: its value is 0, its slope infinite, and infinite times 0 is no number.
    parts.loss = [](const torch::Tensor& outputs, const torch::Tensor&) -> TorchLoss {
        return {.sum = (outputs * 0).sqrt().sum(), .correct = {}};
    };
    const auto learner = *make_torch_learner(std::move(parts));
    const auto report = learner->accumulate({0, 50});
    ASSERT_TRUE(report);
    EXPECT_FALSE(report->finite);
    std::vector<float> sum(learner->layout().parameters_count, 1.0f);
    learner->take(sum, {}, 50);
    EXPECT_EQ(sum, std::vector<float>(sum.size()));
}

// 5 x 3 weights in mixed precision: the product is rounded to bf16, gradients and sums are not.
TEST(TorchLearner, keeps_gradients_fp32_in_mixed_precision_and_autocast_to_itself) {
    torch::manual_seed(3);
    auto layer = nn::Linear(5, 3);
    torch::Tensor product;
    torch::ScalarType during = torch::kFloat64;
    torch::ScalarType of_gradient = torch::kFloat64;
    layer->weight.register_hook(
        [&](const torch::Tensor& gradient) { of_gradient = gradient.scalar_type(); });
    TorchParts parts;
    parts.make_model = [&] {
        return TorchModel{.module = layer.ptr(), .forward = [&](const torch::Tensor& inputs) {
                              product = layer(inputs);
                              during = product.scalar_type();
                              return product;
                          }};
    };
    const torch::Tensor inputs = torch::randn({64, 5});
    const torch::Tensor targets = torch::randint(3, {64}, torch::kInt64);
    const auto batch = [&](collab::CounterRange samples) -> Result<TorchBatch> {
        const auto begin = static_cast<std::int64_t>(samples.begin);
        const auto end = static_cast<std::int64_t>(samples.end);
        return TorchBatch{.inputs = inputs.slice(0, begin, end),
                          .targets = targets.slice(0, begin, end)};
    };
    parts.train_batch = batch;
    parts.held_out_batch = batch;
    parts.held_out_count = 64;
    parts.loss = classification_loss;
    const auto gradient_in = [&](bool bf16) {
        parts.bf16 = bf16;
        const auto learner = *make_torch_learner(parts);
        std::vector<float> gradient(learner->layout().parameters_count);
        const auto report = learner->accumulate({0, 64});
        EXPECT_TRUE(report) << report.error().message();
        EXPECT_EQ(during, bf16 ? torch::kBFloat16 : torch::kFloat32);
        EXPECT_EQ(layer->weight.scalar_type(), torch::kFloat32);
        EXPECT_EQ(of_gradient, torch::kFloat32);
        EXPECT_FALSE(autocast_is_on(torch::kCPU));
        learner->take(gradient, {}, 64);
        EXPECT_TRUE(learner->evaluate());
        EXPECT_EQ(during, torch::kFloat32);
        return gradient;
    };
    const std::vector<float> exact = gradient_in(false);
    const std::vector<float> mixed = gradient_in(true);
    EXPECT_LT(relative_difference(mixed, exact), 0.02);
    EXPECT_NE(mixed, exact);
}

TEST(TorchLearner, scales_a_loss_without_changing_a_bit_of_the_gradient) {
    const Data data = made_data();
    const auto gradient_at = [&](double loss_scale) {
        TorchParts parts = made_parts(data);
        parts.loss_scale = loss_scale;
        const auto learner = *make_torch_learner(std::move(parts));
        EXPECT_TRUE(learner->accumulate({0, 50})->finite);
        std::vector<float> gradient(learner->layout().parameters_count);
        learner->take(gradient, {}, 50);
        return gradient;
    };
    const std::vector<float> plain = gradient_at(0);
    EXPECT_EQ(gradient_at(LossScale::start), plain);
    // Beyond fp32's range: halved until it fits, and no sample is lost.
    EXPECT_EQ(gradient_at(0x1p127), plain);
}

TEST(TorchLearner, computes_fp16_on_gpus_only) {
    TorchParts parts = made_parts(made_data());
    parts.fp16 = true;
    const auto learner = make_torch_learner(std::move(parts));
    ASSERT_FALSE(learner);
    EXPECT_EQ(learner.error().kind(), ErrorKind::unsupported);
}

TEST(TorchLearner, evaluates_held_out_data_whole) {
    const Data data = made_data();
    const auto learner = made_learner(data);
    const Result<collab::Evaluation> evaluation = learner->evaluate();
    ASSERT_TRUE(evaluation);
    const TorchModel model = made_model(false);
    const torch::Tensor outputs = model.forward(data.inputs.slice(0, 0, 1200));
    const torch::Tensor targets = data.targets.slice(0, 0, 1200);
    EXPECT_EQ(evaluation->samples, 1200u);
    EXPECT_NEAR(
        evaluation->loss, nn::functional::cross_entropy(outputs, targets).item<double>(), 1e-5);
    EXPECT_NEAR(evaluation->accuracy,
                (outputs.argmax(1) == targets).to(torch::kFloat64).mean().item<double>(),
                1e-9);
}

TEST(TorchLearner, ends_an_evaluation_that_is_cancelled_after_the_batch_it_is_at) {
    const Data data = made_data();
    TorchParts parts = made_parts(data);
    train::SampledModel* here = nullptr;
    int batches = 0;
    parts.held_out_batch = [&, slice = parts.held_out_batch](collab::CounterRange range) {
        if (++batches == 2) here->cancel_evaluation();
        return slice(range);
    };
    const auto learner = *make_torch_learner(std::move(parts));
    here = learner.get();
    for (int i = 0; i < 2; ++i) {  // and no other one begins
        const auto evaluation = learner->evaluate();
        ASSERT_FALSE(evaluation);
        EXPECT_EQ(evaluation.error().kind(), ErrorKind::cancelled);
        EXPECT_EQ(batches, 2);
    }
}

TEST(TorchLearner, reports_what_libtorch_throws_as_an_error) {
    TorchParts parts = made_parts(made_data());
    parts.train_batch = [](collab::CounterRange) -> Result<TorchBatch> {
        return TorchBatch{torch::zeros({2, features + 1}), torch::zeros({2}, torch::kInt64)};
    };
    const auto learner = *make_torch_learner(std::move(parts));
    const Result<train::GradientReport> report = learner->accumulate({0, 2});
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().kind(), ErrorKind::cannot_compute);
    EXPECT_EQ(report.error().message().find('\n'), std::string::npos);
}

TEST(Device, names_what_it_knows) {
    EXPECT_EQ(*choose_device("cpu"), "cpu");
    EXPECT_TRUE(choose_device("auto"));
    EXPECT_EQ(choose_device("gpu").error().kind(), ErrorKind::bad_input);
    if (!torch::cuda::is_available()) {
        EXPECT_EQ(choose_device("cuda").error().kind(), ErrorKind::unsupported);
    }
}

// ---- our optimizers on a learner's sums, against libtorch's on the same samples as one batch

constexpr std::uint64_t steps = 20;
constexpr std::uint64_t batch_target = 200;

std::vector<float> ours(const Data& data, const optim::OptimizerConfig& config) {
    const auto learner = made_learner(data);
    const run::Layout layout = learner->layout();
    std::vector<float> parameters(layout.parameters_count);
    std::vector<float> gradient(layout.parameters_count);
    learner->store(parameters, {});
    std::vector<std::vector<float>> moments(optim::moments_count(config),
                                            std::vector<float>(layout.parameters_count));
    const std::vector<std::span<float>> views(moments.begin(), moments.end());
    for (std::uint64_t step = 0; step < steps; ++step) {
        learner->load(parameters, {});
        for (std::uint64_t begin = 0; begin < batch_target; begin += 50) {
            EXPECT_TRUE(learner->accumulate(
                {step * batch_target + begin, step * batch_target + begin + 50}));
        }
        learner->take(gradient, {}, batch_target);
        for (float& value : gradient) value /= static_cast<float>(batch_target);
        (void)optim::step(config, layout.parameters, step, parameters, gradient, views);
    }
    return parameters;
}

using Apply = std::function<void(std::vector<torch::Tensor>&, std::uint64_t step)>;

std::vector<float> libtorchs(const Data& data, const Apply& apply) {
    const TorchModel model = made_model(false);
    std::vector<torch::Tensor> parameters = model.module->parameters();
    for (std::uint64_t step = 0; step < steps; ++step) {
        const auto begin = static_cast<std::int64_t>(step * batch_target);
        const auto end = static_cast<std::int64_t>((step + 1) * batch_target);
        model.module->zero_grad();
        nn::functional::cross_entropy(model.forward(data.inputs.slice(0, begin, end)),
                                      data.targets.slice(0, begin, end))
            .backward();
        apply(parameters, step);
    }
    Result<FlatModule> flat = FlatModule::make(model.module);
    std::vector<float> values(flat->layout().parameters_count);
    flat->store(values, {});
    return values;
}

void compare_sgd(bool nesterov) {
    const Data data = made_data();
    optim::OptimizerConfig config;
    config.schedule.peak = 0.1;
    config.nesterov = nesterov;
    std::unique_ptr<torch::optim::SGD> reference;
    const std::vector<float> theirs =
        libtorchs(data, [&](std::vector<torch::Tensor>& parameters, std::uint64_t) {
            if (!reference) {
                reference = std::make_unique<torch::optim::SGD>(
                    parameters, torch::optim::SGDOptions(0.1).momentum(0.9).nesterov(nesterov));
            }
            reference->step();
        });
    const double difference = relative_difference(ours(data, config), theirs);
    testing::Test::RecordProperty("relative", fmt::format("{:.1e}", difference));
    EXPECT_LT(difference, 3e-6);
    EXPECT_GT(relative_difference(theirs, libtorchs(data, [](auto&, auto) {})), 0.01);
}

TEST(TorchLearner, with_our_sgd_ends_where_torch_optim_sgd_ends) { compare_sgd(false); }

TEST(TorchLearner, with_our_nesterov_ends_where_torch_optim_sgd_ends) { compare_sgd(true); }

TEST(TorchLearner, with_our_adamw_ends_where_torch_optim_adamw_ends) {
    const Data data = made_data();
    optim::OptimizerConfig config;
    config.kind = optim::OptimizerKind::adamw;
    config.schedule.peak = 0.003;
    config.weight_decay = 0.05;
    std::unique_ptr<torch::optim::AdamW> reference;
    const std::vector<float> theirs =
        libtorchs(data, [&](std::vector<torch::Tensor>& parameters, std::uint64_t) {
            if (!reference) {
                std::vector<torch::optim::OptimizerParamGroup> groups;
                for (const bool decays : {true, false}) {
                    std::vector<torch::Tensor> members;
                    for (const torch::Tensor& parameter : parameters) {
                        if ((parameter.dim() >= 2) == decays) members.push_back(parameter);
                    }
                    auto options = std::make_unique<torch::optim::AdamWOptions>(0.003);
                    options->weight_decay(decays ? 0.05 : 0);
                    groups.emplace_back(members, std::move(options));
                }
                reference = std::make_unique<torch::optim::AdamW>(
                    groups, torch::optim::AdamWOptions(0.003).weight_decay(0.05));
            }
            reference->step();
        });
    const double difference = relative_difference(ours(data, config), theirs);
    RecordProperty("relative", fmt::format("{:.1e}", difference));
    EXPECT_LT(difference, 3e-6);
}

TEST(TorchLearner, with_our_lamb_ends_where_its_formula_in_libtorch_ends) {
    const Data data = made_data();
    optim::OptimizerConfig config;
    config.kind = optim::OptimizerKind::lamb;
    config.schedule.peak = 0.01;
    config.weight_decay = 0.01;
    config.epsilon = 1e-6;
    std::vector<torch::Tensor> first;
    std::vector<torch::Tensor> second;
    const std::vector<float> theirs =
        libtorchs(data, [&](std::vector<torch::Tensor>& parameters, std::uint64_t step) {
            torch::NoGradGuard no_grad;
            const auto t = static_cast<double>(step + 1);
            const double debias = std::sqrt(1 - std::pow(0.999, t)) / (1 - std::pow(0.9, t));
            for (std::size_t i = 0; i < parameters.size(); ++i) {
                torch::Tensor& p = parameters[i];
                const torch::Tensor g = p.grad();
                if (first.size() == i) {
                    first.push_back(torch::zeros_like(p));
                    second.push_back(torch::zeros_like(p));
                }
                first[i].mul_(0.9).add_(g, 0.1);
                second[i].mul_(0.999).addcmul_(g, g, 0.001);
                torch::Tensor u = first[i] / (second[i].sqrt() + 1e-6);
                if (p.dim() >= 2) u = u + p * 0.01;
                const double p_norm = p.norm().item<double>();
                const double u_norm = u.norm().item<double>();
                const double trust = p_norm > 0 && u_norm > 0 ? p_norm / u_norm : 1;
                p.sub_(u, 0.01 * debias * trust);
            }
        });
    const double difference = relative_difference(ours(data, config), theirs);
    RecordProperty("relative", fmt::format("{:.1e}", difference));
    EXPECT_LT(difference, 1e-5);
}

}  // namespace
}  // namespace dedloc::torch_bridge
