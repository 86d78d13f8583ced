#include "dedloc/tasks/swav/swav_loss.h"

#include "dedloc/torch_bridge/dense.h"

namespace dedloc::tasks {
namespace {

constexpr double nothing_assigned = 1e-12;  // added where a prototype has no mass at all

// Infinities become the largest finite value.
torch::Tensor finite(const torch::Tensor& x) {
    const auto wrong = torch::isinf(x);
    const auto rest = x.masked_fill(wrong, 0);
    return torch::where(wrong, rest.max(), rest);
}

}  // namespace

torch::Tensor sinkhorn(const torch::Tensor& scores, const SwavLossOptions& options) {
    const torch::NoGradGuard none;
    torch::Tensor q = scores.detach().to(torch::kFloat32) / options.epsilon;
    q = finite(torch::exp((q - q.max()).to(torch::kFloat64)).t());  // [prototypes, samples]
    q = q / q.sum();
    const double rows = 1 / static_cast<double>(q.size(0));
    const double columns = 1 / static_cast<double>(q.size(1));
    for (int i = 0; i < options.iterations; ++i) {
        torch::Tensor mass = q.sum(1);
        if ((mass == 0).any().item<bool>()) {
            q = q + nothing_assigned;
            mass = q.sum(1);
        }
        q = q * finite(rows / mass).unsqueeze(1);
        q = q * (columns / q.sum(0)).unsqueeze(0);
    }
    return (q / q.sum(0, true)).t().to(torch::kFloat32);
}

torch::Tensor swav_loss(const torch::Tensor& scores,
                        const SwavLossOptions& options,
                        const std::vector<torch::Tensor>& queues) {
    const auto crops = scores.to(torch::kFloat32).chunk(options.crops);
    const std::int64_t samples = crops.front().size(0);
    std::vector<torch::Tensor> likely;
    for (const torch::Tensor& crop : crops)
        likely.push_back(torch::log_softmax(crop / options.temperature, 1));
    torch::Tensor total = torch::zeros({}, scores.options().dtype(torch::kFloat32));
    for (std::int64_t assigning = 0; assigning < options.assigning_crops; ++assigning) {
        const auto index = static_cast<std::size_t>(assigning);
        const auto assigned = queues.empty() ? crops[index].detach()
                                             : torch::cat({crops[index].detach(), queues[index]});
        const auto q = sinkhorn(assigned, options).slice(0, 0, samples);
        for (std::size_t predicting = 0; predicting < crops.size(); ++predicting)
            if (predicting != index) total = total - (q * likely[predicting]).sum(1).mean();
    }
    return total / static_cast<double>(options.assigning_crops * (options.crops - 1));
}

void SwavQueue::push(const torch::Tensor& embeddings, std::int64_t crops) {
    const auto parts = embeddings.detach().chunk(crops);
    const std::int64_t samples = parts.front().size(0);
    const std::int64_t length = length_ / samples * samples;
    for (std::size_t i = 0; i < embeddings_.size() && length > 0; ++i) {
        torch::Tensor& kept = embeddings_[i];
        kept = kept.defined() ? torch::cat({parts[i], kept}).slice(0, 0, length) : parts[i].clone();
        full_ = kept.size(0) == length;
    }
}

std::vector<torch::Tensor> SwavQueue::scores(const torch::Tensor& prototypes) const {
    const torch::NoGradGuard none;
    std::vector<torch::Tensor> all;
    for (std::size_t i = 0; full_ && i < embeddings_.size(); ++i)
        all.push_back(torch_bridge::dense(embeddings_[i], prototypes.detach(), {}));
    return all;
}

void SwavQueue::clear() {
    full_ = false;
    for (torch::Tensor& one : embeddings_) one = torch::Tensor();
}

}  // namespace dedloc::tasks
