// The loss against vissl 0.1.6: tests/oracles/swav/make_golden.py wrote the numbers.

#include "dedloc/tasks/swav/swav_loss.h"

#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "dedloc/tasks/swav/swav_models.h"

namespace dedloc::tasks {
namespace {

// make_golden.py's formula().
torch::Tensor formula_scores(std::int64_t number, at::IntArrayRef shape, double spread) {
    torch::Tensor values = torch::empty(shape, torch::kFloat32);
    float* out = values.data_ptr<float>();
    for (std::int64_t i = 0; i < values.numel(); ++i) {
        const std::int64_t mixed = (i * 2654435761 + number * 40503 * 65536) % 4294967296 / 65536;
        out[i] = static_cast<float>(spread * (static_cast<double>(mixed) / 32768 - 1));
    }
    return values;
}

double largest_gap(const torch::Tensor& ours, const nlohmann::json& theirs) {
    const auto numbers = theirs.get<std::vector<double>>();
    const auto expected = torch::tensor(numbers, torch::kFloat64).view(ours.sizes());
    return (ours.to(torch::kFloat64) - expected).abs().max().item<double>();
}

TEST(SwavLoss, has_the_losses_assignments_and_gradients_of_vissl) {
    std::ifstream file(DEDLOC_TEST_DATA "/oracles/swav/golden.json");
    const auto golden = nlohmann::json::parse(file);
    ASSERT_EQ(golden.size(), 4u);
    for (const auto& one : golden) {
        SCOPED_TRACE(one["name"].get<std::string>());
        const SwavLossOptions options{.crops = one["crops"], .epsilon = one["epsilon"]};
        const std::int64_t samples = one["samples"];
        const std::int64_t prototypes = one["prototypes"];
        auto scores =
            formula_scores(one["number"], {options.crops * samples, prototypes}, one["spread"]);
        scores.requires_grad_(true);
        std::vector<torch::Tensor> queues;
        for (int i = 0; one["queue"] > 0 && i < 2; ++i)
            queues.push_back(formula_scores(100 + i, {one["queue"], prototypes}, 1));
        const auto loss = swav_loss(scores, options, queues);
        EXPECT_NEAR(loss.item<double>(), one["loss"].get<double>(), 1e-5);
        loss.backward();
        EXPECT_LT(largest_gap(scores.grad(), one["gradients"]), 1e-5);
        if (!queues.empty()) continue;
        EXPECT_LT(largest_gap(sinkhorn(scores.slice(0, 0, samples), options), one["assignments"]),
                  1e-5);
    }
}

TEST(SwavLoss, assigns_a_batch_equally_to_the_prototypes) {
    torch::manual_seed(1);
    const auto q = sinkhorn(torch::rand({240, 6}), {.epsilon = 0.5, .iterations = 30});
    EXPECT_LT((q.sum(0) - 40).abs().max().item<double>(), 1e-2);
    EXPECT_LT((q.sum(1) - 1).abs().max().item<double>(), 1e-5);
}

TEST(SwavQueue, keeps_the_newest_embeddings_in_whole_batches) {
    SwavQueue queue(5, 2);
    const auto prototypes = torch::eye(1);
    for (const double value : {1., 2., 3.}) {
        EXPECT_EQ(queue.is_full(), value > 2);
        queue.push(torch::full({3 * 2, 1}, value), 3);
    }
    const auto scores = queue.scores(prototypes);
    ASSERT_EQ(scores.size(), 2u);
    EXPECT_EQ(scores[0].size(0), 4);
    EXPECT_EQ(scores[1][0].item<double>(), 3);
    EXPECT_EQ(scores[1][3].item<double>(), 2);
    queue.clear();
    EXPECT_TRUE(queue.scores(prototypes).empty());
}

TEST(SwavModel, resnet50_has_the_papers_parameters_and_begins_near_log_3000) {
    SwavModel model("resnet50", 3, 1);
    std::int64_t count = 0;
    for (const auto& parameter : model.parameters()) count += parameter.numel();
    EXPECT_EQ(count, 28'354'752);
    const torch::NoGradGuard none;
    const auto output = model.forward({torch::randn({4, 3, 64, 64}), torch::randn({4, 3, 32, 32})});
    EXPECT_EQ(output.scores.size(0), 8);
    EXPECT_EQ(output.scores.size(1), 3000);
    EXPECT_LT((output.embeddings.norm(2, {1}) - 1).abs().max().item<double>(), 1e-5);
}

}  // namespace
}  // namespace dedloc::tasks
