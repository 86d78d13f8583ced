#include "dedloc/tasks/swav/swav_evaluation.h"

#include <torch/nn.h>
#include <torch/optim.h>

#include "dedloc/torch_bridge/dense.h"

namespace dedloc::tasks {
namespace {

namespace F = torch::nn::functional;

constexpr double vote_temperature = 0.07;
constexpr std::int64_t queries_at_once = 1000;
constexpr int probe_steps = 200;
constexpr double probe_rate = 0.05;
constexpr double probe_decay = 1e-4;
constexpr double deviation_least = 1e-5;

torch::Tensor unit_rows(const torch::Tensor& x) {
    return F::normalize(x, F::NormalizeFuncOptions().dim(1));
}

double share_of(const torch::Tensor& right) {
    return right.to(torch::kFloat64).mean().item<double>();
}

}  // namespace

double neighbours_accuracy(const EvaluationHalves& halves,
                           std::int64_t neighbours,
                           std::int64_t classes) {
    const torch::NoGradGuard none;
    const auto bank = unit_rows(halves.bank.features);
    const std::int64_t k = std::min(neighbours, bank.size(0));
    std::vector<torch::Tensor> right;
    for (const torch::Tensor& queries : unit_rows(halves.queries.features).split(queries_at_once)) {
        const auto [similar, places] = torch_bridge::dense(queries, bank, {}).topk(k, 1);
        const auto labels = halves.bank.labels.index_select(0, places.flatten()).view_as(places);
        auto votes = torch::zeros({queries.size(0), classes}, similar.options());
        votes.scatter_add_(1, labels, torch::exp(similar / vote_temperature));
        right.push_back(votes.argmax(1));
    }
    return share_of(torch::cat(right) == halves.queries.labels);
}

double linear_accuracy(const EvaluationHalves& halves, std::int64_t classes) {
    const auto mean = halves.bank.features.mean(0, true);
    const auto deviation = halves.bank.features.std(0, true, true).clamp_min(deviation_least);
    const auto inputs = (halves.bank.features - mean) / deviation;
    const torch::AutoGradMode with_gradients(true);
    auto weight = torch::zeros({classes, inputs.size(1)}, inputs.options()).requires_grad_(true);
    auto bias = torch::zeros({classes}, inputs.options()).requires_grad_(true);
    torch::optim::Adam adam({weight, bias},
                            torch::optim::AdamOptions(probe_rate).weight_decay(probe_decay));
    for (int step = 0; step < probe_steps; ++step) {
        adam.zero_grad();
        F::cross_entropy(torch_bridge::dense(inputs, weight, bias), halves.bank.labels).backward();
        adam.step();
    }
    const torch::NoGradGuard none;
    const auto queries = (halves.queries.features - mean) / deviation;
    return share_of(torch_bridge::dense(queries, weight, bias).argmax(1) == halves.queries.labels);
}

}  // namespace dedloc::tasks
