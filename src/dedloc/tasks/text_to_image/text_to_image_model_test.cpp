// The transformer against dalle-pytorch 1.6.6: tests/oracles/dalle/make_golden.py wrote the
// numbers.

#include "dedloc/tasks/text_to_image/text_to_image_model.h"

#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace dedloc::tasks {
namespace {

TextToImageConfig tiny(bool reversible) {
    return {.width = 24,
            .layers = 6,
            .heads = 2,
            .head_width = 24,
            .text_vocabulary = 11,
            .text_length = 5,
            .image_vocabulary = 13,
            .image_side = 4,
            .reversible = reversible};
}

// make_golden.py's formula().
torch::Tensor formula(std::int64_t number, at::IntArrayRef shape, double spread, double middle) {
    torch::Tensor values = torch::empty(shape, torch::kFloat32);
    float* out = values.data_ptr<float>();
    for (std::int64_t i = 0; i < values.numel(); ++i) {
        const std::int64_t mixed = (i * 2654435761 + number * 40503 * 65536) % 4294967296 / 65536;
        out[i] = static_cast<float>(middle + spread * (static_cast<double>(mixed) / 32768 - 1));
    }
    return values;
}

void set_weights(TextToImageModel& model) {
    const torch::NoGradGuard none;
    std::int64_t number = 0;
    for (auto& parameter : model.parameters()) {
        const bool is_vector = parameter.numel() == model.config().width;
        parameter.copy_(formula(number++, parameter.sizes(), 0.3, is_vector ? 0.5 : 0));
    }
}

struct Batch {
    torch::Tensor captions = formula(1000, {3, 5}, 5.4, 5.5).to(torch::kInt64);
    torch::Tensor codes = formula(1001, {3, 16}, 6.4, 6.5).to(torch::kInt64);
};

double relative_gap(double a, double b) {
    return std::abs(a - b) / std::max({std::abs(a), std::abs(b), 1e-3});
}

TEST(TextToImageModel, has_the_losses_and_gradients_of_dalle_pytorch) {
    std::ifstream file(DEDLOC_TEST_DATA "/oracles/dalle/golden.json");
    const auto golden = nlohmann::json::parse(file);
    for (const auto& run : golden["runs"]) {
        SCOPED_TRACE(run["reversible"].dump());
        TextToImageModel model(tiny(run["reversible"]));
        set_weights(model);
        const Batch batch;
        const auto losses = model.losses(batch.captions, batch.codes);
        EXPECT_NEAR(losses.text.mean().item<double>(), run["text"].get<double>(), 1e-5);
        EXPECT_NEAR(losses.image.mean().item<double>(), run["image"].get<double>(), 1e-5);
        const auto loss = losses.joined().mean();
        EXPECT_NEAR(loss.item<double>(), run["loss"].get<double>(), 1e-5);
        loss.backward();
        const auto parameters = model.named_parameters();
        ASSERT_EQ(parameters.size(), run["gradient_norms"].size());
        for (std::size_t i = 0; i < parameters.size(); ++i) {
            const auto gradient = parameters[i].value().grad().to(torch::kFloat64);
            EXPECT_LT(relative_gap(gradient.norm().item<double>(), run["gradient_norms"][i]), 1e-4)
                << parameters[i].key();
            EXPECT_NEAR(gradient.sum().item<double>(), run["gradient_sums"][i].get<double>(), 1e-5)
                << parameters[i].key();
        }
    }
}

TEST(TextToImageModel, run_backwards_has_the_gradients_of_the_remembered_layers) {
    TextToImageModel model(tiny(true));
    set_weights(model);
    const auto weights = torch::randn({24, 24}, torch::requires_grad()).detach() * 0.2;
    auto first = weights.clone().requires_grad_(true);
    auto second = weights.clone().requires_grad_(true);
    const auto blocks = [](const torch::Tensor& w) {
        std::vector<ReversibleBlock> all;
        for (int i = 0; i < 5; ++i)
            all.push_back({[w](const torch::Tensor& x) { return torch::tanh(x.matmul(w)); },
                           [w](const torch::Tensor& x) { return torch::sin(x.matmul(w.t())); }});
        return all;
    };
    const auto x = torch::randn({2, 3, 24}).requires_grad_(true);
    const auto y = x.detach().clone().requires_grad_(true);
    const auto back = blocks(first);
    const auto remembered = blocks(second);
    run_reversible(x, back).pow(2).sum().backward();
    run_remembered(y, remembered).pow(2).sum().backward();
    const auto gap = [](const torch::Tensor& a, const torch::Tensor& b) {
        return ((a - b).norm() / b.norm()).item<double>();
    };
    EXPECT_LT(gap(x.grad(), y.grad()), 1e-5);
    EXPECT_LT(gap(first.grad(), second.grad()), 1e-5);
}

TEST(TextToImageModel, predicts_a_code_from_those_before_it_alone) {
    TextToImageModel model(tiny(true));
    set_weights(model);
    Batch batch;
    const auto before = model.next_code_logits(batch.captions, batch.codes.slice(1, 0, 6));
    batch.codes.slice(1, 6).fill_(3);
    const auto after = model.next_code_logits(batch.captions, batch.codes.slice(1, 0, 6));
    EXPECT_TRUE(torch::equal(before, after));
    // The seventh code's loss is that of these logits.
    const auto one = torch::log_softmax(before, -1);
    EXPECT_EQ(one.size(1), 13);
}

// From the first code to the last, in one row of codes and over its edge.
TEST(TextToImageModel, with_a_cache_gives_the_logits_of_the_whole_sequence) {
    for (const bool reversible : {false, true}) {
        TextToImageModel model(tiny(reversible));
        set_weights(model);
        const Batch batch;
        TextToImageCache cache = model.empty_cache(3);
        for (std::int64_t count = 0; count < 16; ++count) {
            if (count == 7) continue;  // two codes at once
            const auto codes = batch.codes.slice(1, 0, count);
            const auto whole = model.next_code_logits(batch.captions, codes);
            const auto next = model.next_code_logits(batch.captions, codes, &cache);
            EXPECT_LT((whole - next).abs().max().item<double>(), 1e-5) << count;
        }
        EXPECT_EQ(cache.length, model.config().sequence());
    }
}

TEST(TextToImageConfig, of_the_published_run_has_125_8_million_parameters) {
    const TextToImageConfig published;
    EXPECT_EQ(published.parameters_count(), 125'894'244);
    EXPECT_GT(published.unshared_parameters_count(), 8 * published.parameters_count());
    TextToImageModel model(tiny(true));
    std::int64_t count = 0;
    for (const auto& parameter : model.parameters()) count += parameter.numel();
    EXPECT_EQ(tiny(true).parameters_count(), count);
    TextToImageConfig wrong = tiny(true);
    wrong.width = 22;
    EXPECT_FALSE(check(wrong));
}

}  // namespace
}  // namespace dedloc::tasks
