// Against Hugging Face's ALBERT: tests/albert/make_golden.py wrote the files in tests/vectors.

#include "dedloc/tasks/albert/albert_model.h"

#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <sstream>
#include <torch/script.h>

#include "dedloc/optim/optimizer.h"
#include "dedloc/tasks/albert/albert_weights.h"
#include "dedloc/tensor/relative_distance.h"
#include "dedloc/torch_bridge/flat_module.h"

namespace dedloc::tasks {
namespace {

using torch::Tensor;

Bytes vector_file(const std::string& name) {
    std::ifstream file(std::string(DEDLOC_TEST_DATA) + "/vectors/albert/" + name, std::ios::binary);
    return Bytes(std::istreambuf_iterator<char>(file), {});
}

Tensor tensor_of(const Safetensors& file, const std::string& name) {
    const auto found = file.find(name);
    EXPECT_TRUE(found) << name;
    if (!found) return torch::zeros({1});
    if (found->type == SafetensorsType::i64)
        return torch::tensor(*found->integers()).view(torch::IntArrayRef(found->shape));
    return torch::tensor(*found->floats()).view(torch::IntArrayRef(found->shape));
}

double difference(const Tensor& a, const Tensor& b) { return (a - b).abs().max().item<double>(); }

struct Golden {
    explicit Golden(const std::string& name)
        : bytes(vector_file(name + ".safetensors")), file(*parse_safetensors(bytes)) {
        const Bytes json = vector_file(name + ".json");
        const std::string text(base::as_text(json));
        // The config is what stands between the braces of "config".
        const std::size_t begin = text.find('{', 1);
        config = *albert_config_from_json(text.substr(begin, text.find('}') + 1 - begin));
        Safetensors weights;
        for (const auto& [key, tensor] : file.tensors)
            if (key.starts_with("albert.") || key.starts_with("predictions.") ||
                key.starts_with("sop_classifier."))
                weights.tensors[key] = tensor;
        model = std::make_shared<AlbertModel>(config, 1);
        const Ok loaded = load_albert_weights(*model, weights);
        EXPECT_TRUE(loaded) << loaded.error().message();
        batch.input_ids = tensor_of(file, "batch.input_ids");
        batch.token_type_ids = tensor_of(file, "batch.token_type_ids");
        batch.attention_mask = tensor_of(file, "batch.attention_mask");
        batch.labels = tensor_of(file, "batch.labels");
        batch.sentence_order = tensor_of(file, "batch.sentence_order_label");
    }

    Bytes bytes;
    Safetensors file;
    AlbertConfig config;
    std::shared_ptr<AlbertModel> model;
    AlbertBatch batch;
};

class AlbertGoldenTest : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Models,
                         AlbertGoldenTest,
                         testing::Values("tiny", "lively"),
                         [](const auto& model) { return std::string(model.param); });

TEST_P(AlbertGoldenTest, has_the_loss_and_the_gradients_of_hugging_face) {
    Golden golden(GetParam());
    const Tensor loss = albert_batch_loss(golden.model->forward(golden.batch), golden.batch);
    EXPECT_NEAR(loss.item<double>(), tensor_of(golden.file, "loss").item<double>(), 1e-5);
    loss.backward();
    double difference_squares = 0;
    double squares = 0;
    for (const auto& item : golden.model->named_parameters()) {
        const Tensor wanted = tensor_of(golden.file, "gradient." + item.key());
        ASSERT_TRUE(item.value().grad().defined()) << item.key();
        // Entries of large gradients are compared with their size: fp32 has seven digits.
        const double scale = std::max(1.0, wanted.abs().max().item<double>());
        EXPECT_LT(difference(item.value().grad(), wanted), 1e-5 * scale) << item.key();
        difference_squares += (item.value().grad() - wanted).square().sum().item<double>();
        squares += wanted.square().sum().item<double>();
    }
    EXPECT_LT(std::sqrt(difference_squares / squares), 1e-5);
    EXPECT_EQ(golden.model->named_parameters().size(), 32u);
}

TEST_P(AlbertGoldenTest, computes_the_same_in_torchscript) {
    Golden golden(GetParam());
    golden.model->eval();
    const auto script = albert_torchscript(*golden.model);
    ASSERT_TRUE(script) << script.error().message();
    std::istringstream in{std::string(base::as_text(*script))};
    torch::jit::Module module = torch::jit::load(in);
    const auto outputs =
        module
            .forward(
                {golden.batch.input_ids, golden.batch.attention_mask, golden.batch.token_type_ids})
            .toTuple();
    const AlbertOutputs ours = golden.model->forward(golden.batch);
    const Tensor words = outputs->elements()[0].toTensor();
    const Tensor masked = torch::nonzero(golden.batch.labels.view({-1}) >= 0).view({-1});
    const Tensor chosen = words.view({-1, golden.config.vocabulary}).index_select(0, masked);
    EXPECT_LT(difference(chosen, ours.word_logits), 1e-4);
    EXPECT_LT(difference(outputs->elements()[1].toTensor(), ours.order_logits), 1e-4);
    std::size_t names = 0;
    for (const auto& item : module.named_parameters()) {
        EXPECT_TRUE(golden.model->named_parameters().contains(item.name)) << item.name;
        ++names;
    }
    EXPECT_EQ(names, 32u);
}

TEST_P(AlbertGoldenTest, gives_back_its_weights_and_sizes) {
    Golden golden(GetParam());
    const Bytes written = albert_safetensors(*golden.model);
    const auto parsed = parse_safetensors(written);
    ASSERT_TRUE(parsed);
    for (const auto& [name, tensor] : parsed->tensors)
        EXPECT_EQ(*tensor.floats(), *golden.file.find(name)->floats()) << name;
    EXPECT_EQ(parsed->tensors.size(), 32u);
    EXPECT_EQ(*albert_config_from_json(albert_config_json(golden.config)), golden.config);

    AlbertModel other(golden.config, 2);
    ASSERT_TRUE(load_albert_weights(other, *parsed));
    EXPECT_EQ(albert_safetensors(other), written);
    Safetensors missing = *parsed;
    missing.tensors.erase("albert.pooler.bias");
    EXPECT_FALSE(load_albert_weights(other, missing));
    Safetensors left_over = *parsed;
    left_over.tensors["albert.pooler.spoon"] = left_over.tensors["albert.pooler.bias"];
    EXPECT_NE(load_albert_weights(other, left_over).error().message().find("spoon"),
              std::string::npos);
    Safetensors bent = *parsed;
    bent.tensors["albert.pooler.bias"] = bent.tensors["albert.pooler.weight"];
    EXPECT_NE(load_albert_weights(other, bent).error().message().find("shape"), std::string::npos);
}

TEST(AlbertModel, large_has_as_many_parameters_as_in_the_paper) {
    const AlbertConfig large;
    EXPECT_EQ(parameters_count(large), 17'847'474);
    AlbertModel model(large, 1);

    std::int64_t count = 0;
    double squares = 0;
    for (const Tensor& parameter : model.parameters()) {
        count += parameter.numel();
        if (parameter.dim() == 2) squares += parameter.detach().square().sum().item<double>();
    }
    EXPECT_EQ(count, 17'847'474);
    // N(0, 0.02) but for one row of zeros; ranks 2 are all but 66,594 of the parameters.
    EXPECT_NEAR(std::sqrt(squares / 17'780'000), 0.02, 1e-4);
}

// A batch of `rows` samples with two masked words each, and one without any.
text::MaskedBatch made_batch(std::int64_t rows, std::int64_t columns, std::int64_t vocabulary) {
    text::MaskedBatch batch;
    batch.rows = rows;
    batch.columns = columns;
    for (std::int64_t row = 0; row < rows; ++row) {
        for (std::int64_t column = 0; column < columns; ++column) {
            const std::int64_t word = 5 + (row * 31 + column * column * 7) % (vocabulary - 5);
            const bool masked = row + 1 < rows && (column == 2 || column == 3 + row % 3);
            batch.input_ids.push_back(masked ? 4 : word);
            batch.labels.push_back(masked ? word : -100);
            batch.token_type_ids.push_back(column > columns / 2 ? 1 : 0);
            batch.attention_mask.push_back(1);
        }
        batch.sentence_order.push_back(row % 2);
    }
    return batch;
}

text::MaskedBatch row_of(const text::MaskedBatch& batch, std::int64_t row) {
    text::MaskedBatch one;
    one.rows = 1;
    one.columns = batch.columns;
    const auto cut = [&](const std::vector<std::int64_t>& all) {
        const auto begin = all.begin() + row * batch.columns;
        return std::vector<std::int64_t>(begin, begin + batch.columns);
    };
    one.input_ids = cut(batch.input_ids);
    one.labels = cut(batch.labels);
    one.token_type_ids = cut(batch.token_type_ids);
    one.attention_mask = cut(batch.attention_mask);
    one.sentence_order = {batch.sentence_order[static_cast<std::size_t>(row)]};
    return one;
}

AlbertConfig small() {
    return {.vocabulary = 60,
            .embedding = 8,
            .hidden = 12,
            .layers = 3,
            .heads = 3,
            .feed_forward = 20,
            .positions = 10,
            .dropout = 0.2,
            .classifier_dropout = 0.1};
}

std::vector<float> gradient_of(AlbertModel& model, const std::vector<AlbertBatch>& batches) {
    for (Tensor& parameter : model.parameters())
        if (parameter.grad().defined()) parameter.mutable_grad().reset();
    for (const AlbertBatch& batch : batches)
        albert_sample_loss(model.forward(batch), batch).sum.backward();
    std::vector<float> all;
    for (const Tensor& parameter : model.parameters()) {
        const Tensor flat = parameter.grad().contiguous().view({-1});
        all.insert(all.end(), flat.data_ptr<float>(), flat.data_ptr<float>() + flat.numel());
    }
    return all;
}

TEST(AlbertModel, samples_add_up_however_they_are_put_into_batches) {
    AlbertModel model(small(), 5);
    const text::MaskedBatch batch = made_batch(4, 9, 60);
    const std::vector<std::uint64_t> seeds = {11, 12, 13, 14};
    std::vector<AlbertBatch> rows;
    for (std::int64_t row = 0; row < 4; ++row)
        rows.push_back(albert_batch(row_of(batch, row), {seeds[static_cast<std::size_t>(row)]}));
    const auto together = gradient_of(model, {albert_batch(batch, seeds)});
    const auto apart = gradient_of(model, rows);
    EXPECT_LT(tensor::relative_distance(apart, together), 1e-5);
    // And dropout was there: other seeds, another gradient.
    const auto other = gradient_of(model, {albert_batch(batch, {1, 2, 3, 4})});
    EXPECT_GT(tensor::relative_distance(other, together), 1e-2);
    model.eval();
    const auto still = gradient_of(model, {albert_batch(batch, seeds)});
    EXPECT_EQ(still, gradient_of(model, {albert_batch(batch, {1, 2, 3, 4})}));
}

TEST(AlbertModel, begins_by_knowing_nothing) {
    AlbertModel model(small(), 5);
    model.eval();
    const AlbertBatch batch = albert_batch(made_batch(8, 10, 60), {});
    const AlbertOutputs outputs = model.forward(batch);
    EXPECT_NEAR(albert_batch_loss(outputs, batch).item<double>(), loss_of_ignorance(small()), 0.3);
    EXPECT_EQ(outputs.word_logits.size(0), 14);
}

TEST(AlbertModel, a_batch_without_masked_words_still_has_an_order) {
    AlbertModel model(small(), 5);
    const AlbertBatch batch = albert_batch(row_of(made_batch(2, 9, 60), 1), {3});
    const torch_bridge::TorchLoss loss = albert_sample_loss(model.forward(batch), batch);
    EXPECT_NEAR(loss.sum.item<double>(), std::log(2.0), 0.3);
    EXPECT_EQ(loss.correct.item<double>(), 0);
    loss.sum.backward();
}

TEST(AlbertConfig, says_which_size_is_wrong) {
    AlbertConfig config = small();
    config.heads = 5;
    EXPECT_NE(check(config).error().message().find("heads"), std::string::npos);
    config = small();
    config.layers = 0;
    EXPECT_NE(check(config).error().message().find("layers"), std::string::npos);
    config = {.vocabulary = 1 << 20, .embedding = 1 << 14};
    EXPECT_NE(check(config).error().message().find("too many"), std::string::npos);
    EXPECT_FALSE(albert_config_from_json(R"({"model_type": "albert"})"));
    EXPECT_FALSE(albert_config_from_json("[]"));
    EXPECT_EQ(albert_config_from_json(R"({"model_type": "bert"})").error().kind(),
              ErrorKind::unsupported);
}

// optim::step with LAMB against numpy in double precision, 100 steps.
TEST(Lamb, follows_the_reference_for_a_hundred_steps) {
    const Bytes bytes = vector_file("lamb.safetensors");
    const auto file = parse_safetensors(bytes);
    ASSERT_TRUE(file);
    optim::OptimizerConfig config{.kind = optim::OptimizerKind::lamb};
    config.schedule = {
        .kind = optim::ScheduleKind::linear, .peak = 0.02, .warmup_steps = 20, .total_steps = 200};
    config.weight_decay = 0.01;
    config.epsilon = 1e-6;
    config.norm_clamp = 10;
    std::vector<float> parameters;
    std::vector<optim::ParameterGroup> groups;
    for (int i = 0; i < 5; ++i) {
        const auto start = file->find(fmt::format("start.{}", i));
        ASSERT_TRUE(start);
        const std::vector<float> values = *start->floats();
        groups.push_back({.name = start->shape.size() == 2 ? "matrix" : "bias",
                          .offset = parameters.size(),
                          .count = values.size(),
                          .decay = start->shape.size() == 2});
        parameters.insert(parameters.end(), values.begin(), values.end());
    }
    ASSERT_EQ(optim::moments_count(config), 2u);
    std::vector<float> first(parameters.size());
    std::vector<float> second(parameters.size());
    const std::span<float> moments[] = {first, second};
    const std::vector<float> gradients = *file->find("gradients")->floats();
    ASSERT_EQ(gradients.size(), 100 * parameters.size());
    int compared = 0;
    for (std::uint64_t step = 0; step < 100; ++step) {
        const std::span<const float> gradient =
            std::span(gradients).subspan(step * parameters.size(), parameters.size());
        (void)optim::step(config, groups, step, parameters, gradient, moments);
        const auto after = file->find(fmt::format("after.{}", step + 1));
        if (!after) continue;
        ++compared;
        EXPECT_LT(tensor::relative_distance(parameters, *after->floats()), 2e-6)
            << "after step " << step + 1;
    }
    EXPECT_EQ(compared, 3) << "lamb_reference.py writes what is after steps 1, 10 and 100";
}

}  // namespace
}  // namespace dedloc::tasks
