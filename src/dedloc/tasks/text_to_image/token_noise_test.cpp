#include "dedloc/tasks/text_to_image/token_noise.h"

#include <gtest/gtest.h>

#include "dedloc/tasks/tasks_testing.h"

namespace dedloc::tasks {
namespace {

struct Read {
    torch::Tensor captions;
    torch::Tensor codes;
};

TextToImageConfig noisy(double caption_drop, double code_noise) {
    return {.text_length = 4,
            .image_vocabulary = 1000,
            .image_side = 4,
            .caption_drop = caption_drop,
            .code_noise = code_noise};
}

// Captions are all ones and codes all 1000, which no random code is.
Read read_of(const TextToImageConfig& sizes, collab::CounterRange samples, std::uint8_t peer = 1) {
    const auto count = static_cast<std::int64_t>(samples.size());
    Read read{.captions = torch::ones({count, 4}, torch::kInt64),
              .codes = torch::full({count, 16}, 1000, torch::kInt64)};
    const SampleOrder order(7, made_peer(peer), 10);
    TokenNoise(sizes).spoil(order, samples, read.captions, read.codes);
    return read;
}

TEST(TokenNoise, takes_whole_captions_and_single_codes_by_their_shares) {
    const Read read = read_of(noisy(0.2, 0.3), {0, 4000});
    const auto words = read.captions.sum(1);
    EXPECT_TRUE(((words == 0) | (words == 4)).all().item<bool>());
    EXPECT_NEAR((words == 0).to(torch::kFloat32).mean().item<double>(), 0.2, 0.02);
    const auto replaced = (read.codes < 1000).to(torch::kFloat32);
    EXPECT_NEAR(replaced.mean().item<double>(), 0.3, 0.01);
    EXPECT_GE(read.codes.min().item<std::int64_t>(), 0);
    // The random codes are spread over all of them.
    const auto random = read.codes.masked_select(read.codes < 1000).to(torch::kFloat32);
    EXPECT_NEAR(random.mean().item<double>(), 499.5, 10);
}

TEST(TokenNoise, is_the_same_in_micro_batches_of_any_size) {
    const TextToImageConfig sizes = noisy(0.5, 0.5);
    const Read whole = read_of(sizes, {100, 164});
    for (std::uint64_t begin = 100; begin < 164; begin += 16) {
        const Read part = read_of(sizes, {begin, begin + 16});
        const auto first = static_cast<std::int64_t>(begin - 100);
        EXPECT_TRUE(torch::equal(part.captions, whole.captions.slice(0, first, first + 16)));
        EXPECT_TRUE(torch::equal(part.codes, whole.codes.slice(0, first, first + 16)));
    }
    EXPECT_FALSE(torch::equal(whole.codes, read_of(sizes, {100, 164}, 2).codes)) << "another peer";
}

TEST(TokenNoise, leaves_all_as_it_is_without_shares) {
    const Read read = read_of(noisy(0, 0), {0, 64});
    EXPECT_TRUE((read.captions == 1).all().item<bool>());
    EXPECT_TRUE((read.codes == 1000).all().item<bool>());
}

TEST(TokenNoise, is_needed_for_guidance) {
    EXPECT_TRUE(check_guidance(noisy(0, 0), 1));
    EXPECT_TRUE(check_guidance(noisy(0.1, 0), 3));
    const Ok refused = check_guidance(noisy(0, 0.5), 3);
    ASSERT_FALSE(refused);
    EXPECT_NE(refused.error().message().find("caption_drop"), std::string::npos);
}

}  // namespace
}  // namespace dedloc::tasks
