#include "dedloc/torch_bridge/torch_expert.h"

#include <cmath>

#include "dedloc/torch_bridge/dense.h"
#include "dedloc/train/first_line.h"

namespace dedloc::torch_bridge {

namespace {

constexpr double expert_norm_epsilon = 1e-12;
constexpr std::size_t matrix_first = 0;
constexpr std::size_t matrix_second = 2;

// Over the caller's numbers, which outlive it.
torch::Tensor view_of(const experts::Tensor& tensor) {
    // from_blob wants no const; nothing here writes to inputs.
    auto* values = const_cast<float*>(tensor.values.data());
    return torch::from_blob(values, tensor.shape);
}

experts::Tensor copy_of(const torch::Tensor& tensor) {
    const torch::Tensor whole = tensor.contiguous();
    const float* values = whole.data_ptr<float>();
    return {.shape = whole.sizes().vec(), .values = {values, values + whole.numel()}};
}

Error expert_failed(const std::exception& failure) {
    return make_error(ErrorKind::cannot_compute,
                      "computing an expert: libtorch says: {}",
                      train::first_line(failure));
}

}  // namespace

torch::Tensor ffn_block(const torch::Tensor& inputs, const std::vector<torch::Tensor>& parameters) {
    const torch::Tensor inner = dense(inputs, parameters[0], parameters[1]);
    const torch::Tensor outer = dense(torch::gelu(inner, "tanh"), parameters[2], parameters[3]);
    return torch::layer_norm(
        inputs + outer, parameters[4].sizes(), parameters[4], parameters[5], expert_norm_epsilon);
}

TorchFfnExpert::TorchFfnExpert(const experts::ExpertUid& uid, experts::FfnOptions options)
    : options_(std::move(options)) {
    if (options_.hidden == 0) options_.hidden = 4 * options_.width;
    experts::FfnExpert fresh(uid, options_);
    schema_ = fresh.schema();
    groups_ = fresh.groups();
    parameters_ = std::move(fresh).take_parameters();
    moments_.assign(optim::moments_count(options_.optimizer),
                    std::vector<float>(parameters_.size()));
    const auto width = static_cast<std::int64_t>(options_.width);
    const auto hidden = static_cast<std::int64_t>(options_.hidden);
    for (std::size_t i = 0; i < groups_.size(); ++i) {
        std::vector<std::int64_t> shape{static_cast<std::int64_t>(groups_[i].count)};
        if (i == matrix_first) shape = {hidden, width};
        if (i == matrix_second) shape = {width, hidden};
        views_.push_back(torch::from_blob(&parameters_[groups_[i].offset], shape));
        views_.back().requires_grad_();
    }
}

Result<std::vector<experts::Tensor>> TorchFfnExpert::forward(
    const std::vector<experts::Tensor>& inputs) {
    try {
        const torch::NoGradGuard no_grad;
        std::vector<experts::Tensor> outputs;
        outputs.push_back(copy_of(ffn_block(view_of(inputs.front()), views_)));
        return outputs;
    } catch (const std::exception& failure) {
        return expert_failed(failure);
    }
}

Result<std::vector<experts::Tensor>> TorchFfnExpert::backward(
    const std::vector<experts::Tensor>& inputs,
    const std::vector<experts::Tensor>& output_gradients) {
    try {
        // The caller may be inside a backward pass of its own (the simulator is one thread).
        const torch::AutoGradMode with_gradients(true);
        const torch::Tensor given = view_of(inputs.front()).requires_grad_();
        const torch::Tensor outputs = ffn_block(given, views_);
        std::vector<torch::Tensor> of = views_;
        of.push_back(given);
        std::vector<torch::Tensor> gradients =
            torch::autograd::grad({outputs}, of, {view_of(output_gradients.front())});
        std::vector<experts::Tensor> result;
        result.push_back(copy_of(gradients.back()));
        gradients.pop_back();
        if (!experts::all_finite(result))
            return make_error(ErrorKind::cannot_compute, "the expert's gradient is not finite");
        DEDLOC_TRY_VOID(update(gradients));
        return result;
    } catch (const std::exception& failure) {
        return expert_failed(failure);
    }
}

Ok TorchFfnExpert::update(const std::vector<torch::Tensor>& gradients) {
    std::vector<float> flat(parameters_.size());
    for (std::size_t i = 0; i < groups_.size(); ++i) {
        const torch::Tensor whole = gradients[i].contiguous();
        const float* values = whole.data_ptr<float>();
        for (std::size_t j = 0; j < groups_[i].count; ++j) {
            if (!std::isfinite(values[j]))
                return make_error(ErrorKind::cannot_compute, "the expert's gradient is not finite");
            flat[groups_[i].offset + j] = values[j];
        }
    }
    std::vector<std::span<float>> moments(moments_.begin(), moments_.end());
    (void)optim::step(options_.optimizer, groups_, updates_, parameters_, flat, moments);
    ++updates_;
    return {};
}

std::vector<state::Section> TorchFfnExpert::snapshot() const {
    return experts::snapshot_sections(options_.optimizer, parameters_, moments_);
}

Ok TorchFfnExpert::load(const std::vector<state::Section>& sections, std::uint64_t updates) {
    DEDLOC_TRY_VOID(experts::load_sections(sections, parameters_, moments_));
    updates_ = updates;
    return {};
}

experts::ExpertFactory torch_expert_factory(experts::FfnOptions options) {
    return [options = std::move(options)](
               const experts::ExpertUid& uid) -> Result<std::unique_ptr<experts::ExpertBackend>> {
        return std::unique_ptr<experts::ExpertBackend>(
            std::make_unique<TorchFfnExpert>(uid, options));
    };
}

std::uint64_t TorchFfnExpert::bytes() const {
    return parameters_.size() * sizeof(float) * (1 + moments_.size());
}

}  // namespace dedloc::torch_bridge
