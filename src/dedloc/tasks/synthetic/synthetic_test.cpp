#include "dedloc/tasks/synthetic/synthetic.h"

#include <chrono>
#include <gtest/gtest.h>

#include "dedloc/replica/model_state.h"
#include "dedloc/tasks/tasks_testing.h"

namespace dedloc::tasks {
namespace {

run::TaskConfig config(std::string model, std::string data) {
    return {.kind = "synthetic", .model = std::move(model), .data = std::move(data), .seed = 5};
}

std::vector<float> gradient_of(std::uint8_t peer, collab::CounterRange samples) {
    const auto task = make_task(config("bowl-100", "noise"), {});
    EXPECT_TRUE(task);
    const auto learner = *(*task)->learner(made_peer(peer));
    const std::vector<float> parameters(100, 0.25f);
    learner->load(parameters, {});
    EXPECT_TRUE(learner->accumulate(samples));
    std::vector<float> sum(100);
    learner->take(sum, {}, samples.size());
    return sum;
}

TEST(Synthetic, a_gradient_is_a_function_of_seed_peer_and_counter) {
    EXPECT_EQ(gradient_of(1, {3, 7}), gradient_of(1, {3, 7}));
    EXPECT_NE(gradient_of(1, {3, 7}), gradient_of(2, {3, 7}));
    EXPECT_NE(gradient_of(1, {3, 7}), gradient_of(1, {7, 11}));
}

TEST(Synthetic, its_lowest_point_is_found) {
    const auto task = make_task(config("bowl-64", "noise"), {});
    ASSERT_TRUE(task);
    const auto learner = *(*task)->learner(made_peer(1));
    std::vector<float> parameters(64);
    std::vector<float> sum(64);
    learner->store(parameters, {});
    learner->load(parameters, {});
    const double loss_before = learner->evaluate()->loss;
    for (std::uint64_t step = 0; step < 60; ++step) {
        learner->load(parameters, {});
        ASSERT_TRUE(learner->accumulate({step * 64, step * 64 + 64}));
        learner->take(sum, {}, 64);
        for (std::size_t k = 0; k < sum.size(); ++k) parameters[k] -= 0.1f * sum[k] / 64;
    }
    learner->load(parameters, {});
    EXPECT_GT(loss_before, 0.2);
    EXPECT_LT(learner->evaluate()->loss, 0.01);
    EXPECT_GT(learner->evaluate()->accuracy, 0.8);
}

TEST(Synthetic, a_gradient_takes_the_time_it_should) {
    const auto task = make_task(config("bowl", "noise-30ms"), {});
    ASSERT_TRUE(task);
    const auto learner = *(*task)->learner(made_peer(1));
    const auto begun = std::chrono::steady_clock::now();
    ASSERT_TRUE(learner->accumulate({0, 4}));
    EXPECT_GE(std::chrono::steady_clock::now() - begun, std::chrono::milliseconds(30));
}

TEST(Synthetic, refuses_what_it_does_not_know) {
    for (const char* model : {"small_cnn", "bowl-", "bowl-0", "bowl-x", "bowl-99999999999"}) {
        const auto task = make_task(config(model, "noise"), {});
        ASSERT_FALSE(task) << model;
        EXPECT_EQ(task.error().kind(), ErrorKind::bad_input);
        EXPECT_NE(task.error().message().find("task.model"), std::string::npos);
    }
    for (const char* data : {"fashion-mnist", "noise-ms", "noise-5", "noise-0ms", "noise-5msms"}) {
        const auto task = make_task(config("bowl", data), {});
        ASSERT_FALSE(task) << data;
        EXPECT_NE(task.error().message().find("task.data"), std::string::npos);
    }
    EXPECT_FALSE(make_task(config("bowl", "noise"), {.device = "cuda"}));
}

}  // namespace
}  // namespace dedloc::tasks
