#include "dedloc/tasks/text_to_image/image_codes.h"

#include <gtest/gtest.h>

#include "dedloc/tasks/text_to_image/sampler.h"

namespace dedloc::tasks {
namespace {

// Flat pictures of eight colours.
torch::Tensor flat_pictures() {
    torch::Tensor pictures = torch::zeros({8, 3, 8, 8});
    for (std::int64_t i = 0; i < 8; ++i)
        for (std::int64_t c = 0; c < 3; ++c) pictures[i][c].fill_(i >> c & 1 ? 0.9 : 0.1);
    return pictures;
}

TEST(ImageCodes, learn_to_give_pictures_back) {
    ImageCodes codes({.side = 8, .codes_side = 2, .codes = 16, .width = 32}, 3);
    torch::optim::AdamW optimizer(codes.parameters(), torch::optim::AdamWOptions(1e-3));
    const torch::Tensor pictures = flat_pictures();
    for (int i = 0; i < 400; ++i) {
        optimizer.zero_grad();
        codes.training_loss(pictures).backward();
        optimizer.step();
    }
    const auto encoded = codes.encode(pictures);
    EXPECT_EQ(encoded.sizes().vec(), (std::vector<std::int64_t>{8, 4}));
    const double error = (codes.decode(encoded) - pictures).pow(2).mean().item<double>();
    // One seed in six takes two colours for one for long; which seed depends on the processor.
    EXPECT_LT(error, 0.3 * pictures.var().item<double>());
    EXPECT_TRUE(torch::equal(codes.encode(pictures), encoded));
}

TEST(ImageCodes, refuse_sides_that_do_not_fit) {
    EXPECT_TRUE(check(ImageCodesConfig()));
    EXPECT_FALSE(check(ImageCodesConfig{.side = 24, .codes_side = 4}));
    EXPECT_FALSE(check(ImageCodesConfig{.side = 16, .codes_side = 16}));
    EXPECT_FALSE(check(ImageCodesConfig{.codes = 1}));
}

TextToImageConfig small_sizes() {
    return {.width = 32,
            .layers = 2,
            .heads = 2,
            .head_width = 16,
            .text_vocabulary = 8,
            .text_length = 3,
            .image_vocabulary = 6,
            .image_side = 2};
}

// A small transformer learns four captions with an image each, and draws them.
TEST(Sampler, draws_the_pictures_that_belong_to_the_captions) {
    TextToImageModel model(small_sizes(), 5);
    const auto captions =
        torch::tensor({{2, 3, 0}, {2, 4, 0}, {5, 3, 0}, {5, 4, 7}}, torch::kInt64);
    const auto codes =
        torch::tensor({{1, 2, 3, 4}, {5, 2, 0, 4}, {0, 0, 3, 1}, {2, 1, 5, 5}}, torch::kInt64);
    torch::optim::AdamW optimizer(model.parameters(), torch::optim::AdamWOptions(1e-2));
    for (int i = 0; i < 100; ++i) {
        optimizer.zero_grad();
        model.losses(captions, codes).joined().mean().backward();
        optimizer.step();
    }
    EXPECT_TRUE(torch::equal(sample_codes(model, captions, {.temperature = 0}), codes));
    const SamplingOptions options{.top_k = 3, .temperature = 2, .seed = 4};
    const auto drawn = sample_codes(model, captions, options);
    EXPECT_TRUE(torch::equal(drawn, sample_codes(model, captions, options)));
    EXPECT_LT(drawn.max().item<std::int64_t>(), 6);
}

// By the formula, without a cache; at 0 there is no caption, and at 1 nothing else.
TEST(Sampler, goes_on_from_no_caption_by_the_guidance) {
    TextToImageModel model(small_sizes(), 5);
    const auto captions = torch::tensor({{2, 3, 0}, {5, 4, 7}}, torch::kInt64);
    const auto empty = torch::zeros_like(captions);
    for (const double guidance : {0.0, 1.0, 8.0}) {
        auto expected = torch::empty({2, 0}, torch::kInt64);
        for (int i = 0; i < 4; ++i) {
            const auto with = model.next_code_logits(captions, expected);
            const auto without = model.next_code_logits(empty, expected);
            const auto next = (without + guidance * (with - without)).argmax(1, true);
            expected = torch::cat({expected, next}, 1);
        }
        const auto codes = sample_codes(model, captions, {.temperature = 0, .guidance = guidance});
        EXPECT_TRUE(torch::equal(codes, expected)) << guidance;
        EXPECT_EQ(torch::equal(codes[0], codes[1]), guidance == 0) << guidance;
    }
    EXPECT_EQ(captions_at_once(model.config(), 2), captions_at_once(model.config()) / 2);
}

TEST(Sampler, ends_when_nobody_waits_and_draws_as_many_at_once_as_memory_allows) {
    TextToImageModel model(small_sizes());
    int asked = 0;
    const SamplingOptions options{.goes_on = [&] { return ++asked < 3; }};
    const auto codes = sample_codes(model, torch::ones({2, 3}, torch::kInt64), options);
    EXPECT_EQ(codes.sizes().vec(), (std::vector<std::int64_t>{2, 0}));
    EXPECT_EQ(asked, 3);
    EXPECT_EQ(captions_at_once(TextToImageConfig()), 1) << "1.3 GB each";
    EXPECT_GT(captions_at_once(model.config()), 1000);
}

}  // namespace
}  // namespace dedloc::tasks
