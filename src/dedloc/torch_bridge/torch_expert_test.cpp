#include "dedloc/torch_bridge/torch_expert.h"

#include <gtest/gtest.h>

#include "dedloc/experts/experts_testing.h"

namespace dedloc::torch_bridge {
namespace {

using experts::ExpertUid;
using experts::FfnExpert;
using experts::FfnOptions;
using experts::Tensor;
using experts::testing::random_tensor;

FfnOptions expert_options(optim::OptimizerKind kind) {
    FfnOptions options;
    options.width = 24;
    options.hidden = 40;
    options.optimizer.kind = kind;
    options.optimizer.schedule.peak = 0.01;
    options.seed = 3;
    return options;
}

void expect_near(std::span<const float> a, std::span<const float> b, float tolerance) {
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t i = 0; i < a.size(); ++i) ASSERT_NEAR(a[i], b[i], tolerance) << i;
}

TEST(TorchFfnExpert, computes_and_learns_what_the_plain_loops_do) {
    const auto uid = ExpertUid::parse("ffn.1.2").value();
    const FfnOptions options = expert_options(optim::OptimizerKind::sgd);
    FfnExpert plain(uid, options);
    TorchFfnExpert torch_expert(uid, options);
    EXPECT_EQ(plain.schema(), torch_expert.schema());
    Random random(1);
    for (int step = 0; step < 5; ++step) {
        const std::vector<Tensor> inputs{random_tensor(random, 7, options.width)};
        const std::vector<Tensor> outer{random_tensor(random, 7, options.width)};
        const auto a = plain.forward(inputs).value();
        const auto b = torch_expert.forward(inputs).value();
        EXPECT_EQ(a[0].shape, b[0].shape);
        expect_near(a[0].values, b[0].values, 1e-5f);
        const auto back_a = plain.backward(inputs, outer).value();
        const auto back_b = torch_expert.backward(inputs, outer).value();
        expect_near(back_a[0].values, back_b[0].values, 1e-5f);
        expect_near(plain.parameters(), torch_expert.parameters(), 1e-5f);
        EXPECT_EQ(torch_expert.updates(), static_cast<std::uint64_t>(step) + 1);
    }
}

TEST(TorchFfnExpert, goes_on_from_a_snapshot_of_either_kind) {
    const auto uid = ExpertUid::parse("ffn.0.1").value();
    const FfnOptions options = expert_options(optim::OptimizerKind::adamw);
    Random random(2);
    const std::vector<Tensor> inputs{random_tensor(random, 3, options.width)};
    const std::vector<Tensor> outer{random_tensor(random, 3, options.width)};
    FfnExpert plain(uid, options);
    ASSERT_TRUE(plain.backward(inputs, outer));
    FfnOptions other = options;
    other.seed = 99;
    TorchFfnExpert taken_over(uid, other);
    ASSERT_TRUE(taken_over.load(plain.snapshot(), plain.updates()));
    EXPECT_EQ(taken_over.updates(), 1u);
    ASSERT_TRUE(plain.backward(inputs, outer));
    ASSERT_TRUE(taken_over.backward(inputs, outer));
    expect_near(plain.parameters(), taken_over.parameters(), 1e-5f);
    EXPECT_FALSE(taken_over.load({}, 5));
    EXPECT_EQ(taken_over.updates(), 2u);
}

TEST(TorchFfnExpert, a_gradient_that_is_not_finite_changes_nothing) {
    const auto uid = ExpertUid::parse("ffn.0.1").value();
    TorchFfnExpert expert(uid, expert_options(optim::OptimizerKind::adamw));
    Random random(2);
    const std::vector<Tensor> inputs{random_tensor(random, 3, 24)};
    std::vector<Tensor> outer{random_tensor(random, 3, 24)};
    for (float& value : outer[0].values) value *= 1e38f;
    const std::vector<float> before = expert.parameters();
    const auto result = expert.backward(inputs, outer);
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().kind(), ErrorKind::cannot_compute);
    EXPECT_EQ(expert.parameters(), before);
    EXPECT_EQ(expert.updates(), 0u);
}

}  // namespace
}  // namespace dedloc::torch_bridge
