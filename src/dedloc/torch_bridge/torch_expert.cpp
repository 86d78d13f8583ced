#include "dedloc/torch_bridge/torch_expert.h"

#include <cmath>

#include "dedloc/torch_bridge/dense.h"
#include "dedloc/torch_bridge/libtorch_error.h"

namespace dedloc::torch_bridge {

namespace {

constexpr double expert_norm_epsilon = 1e-12;
constexpr std::size_t matrix_first = 0;
constexpr std::size_t matrix_second = 2;

constexpr std::int64_t rows_least = 16;

// Over the caller's numbers, which outlive it, and filled up with rows of zeros: oneDNN makes a
// kernel for each number of rows, which takes longer than computing a few rows more, and memory.
torch::Tensor filled_up(const experts::Tensor& tensor) {
    // from_blob wants no const; nothing here writes to inputs.
    auto* values = const_cast<float*>(tensor.values.data());
    const torch::Tensor rows = torch::from_blob(values, tensor.shape);
    const std::int64_t more = rows_computed(rows.size(0)) - rows.size(0);
    return more == 0 ? rows : torch::cat({rows, torch::zeros({more, rows.size(1)})});
}

experts::Tensor first_rows(const torch::Tensor& tensor, std::size_t count) {
    const torch::Tensor rows = tensor.slice(0, 0, static_cast<std::int64_t>(count)).contiguous();
    const float* values = rows.data_ptr<float>();
    return {.shape = rows.sizes().vec(), .values = {values, values + rows.numel()}};
}

Error expert_failed(const std::exception& failure) {
    return libtorch_error("computing an expert", failure);
}

}  // namespace

std::int64_t rows_computed(std::int64_t rows) {
    std::int64_t computed = rows_least;
    while (computed < rows) computed *= 2;
    const std::int64_t less = computed / 4 * 3;
    return less >= rows && less > rows_least ? less : computed;
}

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
        outputs.push_back(
            first_rows(ffn_block(filled_up(inputs.front()), views_), inputs.front().rows()));
        return outputs;
    } catch (const std::exception& failure) {
        return expert_failed(failure);
    }
}

Result<experts::ExpertGradient> TorchFfnExpert::gradient(
    const std::vector<experts::Tensor>& inputs,
    const std::vector<experts::Tensor>& output_gradients) {
    try {
        // The caller may be inside a backward pass of its own (the simulator is one thread).
        const torch::AutoGradMode with_gradients(true);
        const torch::Tensor given = filled_up(inputs.front()).requires_grad_();
        const torch::Tensor outputs = ffn_block(given, views_);
        std::vector<torch::Tensor> of = views_;
        of.push_back(given);
        std::vector<torch::Tensor> gradients =
            torch::autograd::grad({outputs}, of, {filled_up(output_gradients.front())});
        experts::ExpertGradient result;
        result.inputs.push_back(first_rows(gradients.back(), inputs.front().rows()));
        gradients.pop_back();
        if (!experts::all_finite(result.inputs))
            return make_error(ErrorKind::cannot_compute, "the expert's gradient is not finite");
        DEDLOC_TRY(result.parameters, flat(gradients));
        return result;
    } catch (const std::exception& failure) {
        return expert_failed(failure);
    }
}

Result<std::vector<float>> TorchFfnExpert::flat(const std::vector<torch::Tensor>& gradients) const {
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
    return flat;
}

void TorchFfnExpert::apply(std::span<const float> gradient) {
    std::vector<std::span<float>> moments(moments_.begin(), moments_.end());
    (void)optim::step(options_.optimizer, groups_, updates_, parameters_, gradient, moments);
    ++updates_;
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
