#include "dedloc/tasks/text_to_image/reversible.h"

#include <torch/csrc/autograd/custom_function.h>

namespace dedloc::tasks {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Runs layer(x) with gradients; adds those of what it uses. Returns its output and x's gradient.
std::pair<torch::Tensor, torch::Tensor> run_back(const Layer& layer,
                                                 const torch::Tensor& x,
                                                 const torch::Tensor& output_gradient) {
    const torch::AutoGradMode on(true);
    torch::Tensor leaf = x.detach();
    leaf.requires_grad_(true);
    const torch::Tensor output = layer(leaf);
    torch::autograd::backward({output}, {output_gradient});
    return {output.detach(), leaf.grad()};
}

class Reversible : public torch::autograd::Function<Reversible> {
  public:
    static variable_list forward(AutogradContext* context,
                                 const torch::Tensor& first,
                                 const torch::Tensor& second,
                                 const std::vector<ReversibleBlock>* blocks) {
        torch::Tensor x1 = first.detach();
        torch::Tensor x2 = second.detach();
        for (const ReversibleBlock& block : *blocks) {
            x1 = x1 + block.f(x2);
            x2 = x2 + block.g(x1);
        }
        context->save_for_backward({x1, x2});
        context->saved_data["blocks"] = reinterpret_cast<std::int64_t>(blocks);
        return {x1, x2};
    }

    static variable_list backward(AutogradContext* context, variable_list gradients) {
        const auto* blocks = reinterpret_cast<const std::vector<ReversibleBlock>*>(
            context->saved_data["blocks"].toInt());
        const variable_list saved = context->get_saved_variables();
        torch::Tensor y1 = saved[0].detach();
        torch::Tensor y2 = saved[1].detach();
        torch::Tensor d1 = gradients[0];
        torch::Tensor d2 = gradients[1];
        for (auto block = blocks->rbegin(); block != blocks->rend(); ++block) {
            const auto [from_g, into_y1] = run_back(block->g, y1, d2);
            y2 = y2 - from_g;
            d1 = d1 + into_y1;
            const auto [from_f, into_x2] = run_back(block->f, y2, d1);
            y1 = y1 - from_f;
            d2 = d2 + into_x2;
        }
        return {d1, d2, torch::Tensor()};
    }
};

}  // namespace

torch::Tensor run_reversible(const torch::Tensor& x, const std::vector<ReversibleBlock>& blocks) {
    const variable_list both = Reversible::apply(x, x, &blocks);
    return (both[0] + both[1]) / 2;
}

torch::Tensor run_remembered(const torch::Tensor& x, const std::vector<ReversibleBlock>& blocks) {
    torch::Tensor x1 = x;
    torch::Tensor x2 = x;
    for (const ReversibleBlock& block : blocks) {
        x1 = x1 + block.f(x2);
        x2 = x2 + block.g(x1);
    }
    return (x1 + x2) / 2;
}

}  // namespace dedloc::tasks
