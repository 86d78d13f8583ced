#include "dedloc/torch_bridge/remote_mixture.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <stdexcept>

#include "dedloc/torch_bridge/dense.h"

namespace dedloc::torch_bridge {

namespace {

using experts::GridScores;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

experts::Tensor rows_of(const torch::Tensor& tensor) {
    const torch::Tensor whole = tensor.to(torch::kCPU, torch::kFloat32).contiguous();
    const float* values = whole.data_ptr<float>();
    return {.shape = whole.sizes().vec(), .values = {values, values + whole.numel()}};
}

torch::Tensor tensor_of(const experts::Tensor& rows, const torch::Device& device) {
    const torch::Tensor tensor = torch::empty(rows.shape);
    std::copy(rows.values.begin(), rows.values.end(), tensor.data_ptr<float>());
    return tensor.to(device);
}

std::vector<GridScores> scores_of(const torch::Tensor& scores, const experts::ExpertGrid& grid) {
    const experts::Tensor flat = rows_of(scores);
    std::vector<GridScores> rows;
    rows.reserve(flat.rows());
    for (std::size_t i = 0; i < flat.rows(); ++i) {
        const auto row = flat.row(i);
        std::size_t first = 0;
        GridScores& axes = rows.emplace_back();
        for (const std::uint32_t size : grid.sizes) {
            const auto axis = row.subspan(first, size);
            axes.emplace_back(axis.begin(), axis.end());
            first += size;
        }
    }
    return rows;
}

torch::Tensor flat_scores(const std::vector<GridScores>& rows, const torch::Tensor& like) {
    experts::Tensor flat{.shape = like.sizes().vec(), .values = {}};
    for (const GridScores& row : rows)
        for (const auto& axis : row)
            flat.values.insert(flat.values.end(), axis.begin(), axis.end());
    return tensor_of(flat, like.device());
}

// A backward pass needs this of its forward pass.
struct KeptPass : torch::CustomClassHolder {
    MixtureCalls::Passed passed;
    std::shared_ptr<MixtureCalls> calls;
};

struct CallExperts : torch::autograd::Function<CallExperts> {
    static torch::Tensor forward(AutogradContext* context,
                                 const torch::Tensor& inputs,
                                 const torch::Tensor& scores,
                                 const std::shared_ptr<MixtureCalls>& calls) {
        auto passed = calls->forward(rows_of(inputs), scores_of(scores, calls->grid()));
        if (!passed) throw std::runtime_error(passed.error().message());
        torch::Tensor outputs = tensor_of(passed->outputs, inputs.device());
        bool answered = false;
        for (const bool lost : passed->lost) answered = answered || !lost;
        if (!answered) outputs.fill_(std::numeric_limits<float>::quiet_NaN());
        auto kept = c10::make_intrusive<KeptPass>();
        kept->passed = *std::move(passed);
        kept->calls = calls;
        context->saved_data["pass"] = torch::IValue::make_capsule(std::move(kept));
        context->save_for_backward({scores});
        return outputs;
    }

    static variable_list backward(AutogradContext* context, const variable_list& outer) {
        const auto held = context->saved_data["pass"].toCapsule();
        auto& kept = static_cast<KeptPass&>(*held);
        const torch::Tensor scores = context->get_saved_variables().front();
        auto gradients = kept.calls->backward(std::move(kept.passed), rows_of(outer.front()));
        if (!gradients) throw std::runtime_error(gradients.error().message());
        return {tensor_of(gradients->inputs, outer.front().device()),
                flat_scores(gradients->scores, scores),
                torch::Tensor()};
    }
};

}  // namespace

RemoteMixtureImpl::RemoteMixtureImpl(std::int64_t width, std::shared_ptr<MixtureCalls> calls)
    : calls_(std::move(calls)) {
    const auto& sizes = calls_->grid().sizes;
    const auto coordinates = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
    gate = register_module("gate", torch::nn::Linear(width, coordinates));
}

torch::Tensor RemoteMixtureImpl::forward(const torch::Tensor& inputs) {
    return CallExperts::apply(inputs, dense(inputs, gate->weight, gate->bias), calls_);
}

}  // namespace dedloc::torch_bridge
