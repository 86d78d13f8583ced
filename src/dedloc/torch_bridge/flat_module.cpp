#include "dedloc/torch_bridge/flat_module.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <torch/nn/modules/batchnorm.h>
#include <utility>

#include "dedloc/tensor/kernels.h"

namespace dedloc::torch_bridge {

namespace {

namespace nn = torch::nn;
using torch::Tensor;

// A tensor over the caller's memory; the caller keeps the memory alive.
Tensor view_of(std::span<float> values) {
    return torch::from_blob(values.data(),
                            {static_cast<std::int64_t>(values.size())},
                            torch::TensorOptions().dtype(torch::kFloat32));
}

Tensor view_of(std::span<const float> values) {
    // from_blob has no const form; every use below only reads.
    return view_of(std::span<float>(const_cast<float*>(values.data()), values.size()));
}

// Small models have many small tensors: what libtorch needs to begin one operation, its threads'
// meeting included, is then more than the work.
bool is_plain(const Tensor& tensor) {
    constexpr std::int64_t elements_max = 1 << 18;
    return tensor.is_cpu() && tensor.is_contiguous() && tensor.numel() <= elements_max &&
           tensor.scalar_type() == torch::kFloat32;
}

std::span<float> values_of(const Tensor& tensor) {
    return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

std::size_t elements_of(const std::vector<Tensor>& tensors) {
    std::size_t count = 0;
    for (const Tensor& tensor : tensors) count += static_cast<std::size_t>(tensor.numel());
    return count;
}

// One copy to `out`, however many tensors there are: on other devices they are joined first.
void copy_out(const std::vector<Tensor>& tensors, std::span<float> out) {
    DEDLOC_CHECK(out.size() == elements_of(tensors), "{} elements", out.size());
    if (tensors.empty()) return;
    if (!tensors.front().is_cpu()) {
        std::vector<Tensor> flat;
        flat.reserve(tensors.size());
        for (const Tensor& tensor : tensors)
            flat.push_back(tensor.detach().reshape({-1}).to(torch::kFloat32));
        view_of(out).copy_(torch::cat(flat));
        return;
    }
    std::size_t offset = 0;
    for (const Tensor& tensor : tensors) {
        const auto count = static_cast<std::size_t>(tensor.numel());
        const std::span<float> to = out.subspan(offset, count);
        if (is_plain(tensor))
            std::ranges::copy(values_of(tensor), to.begin());
        else
            view_of(to).copy_(tensor.detach().reshape({-1}));
        offset += count;
    }
}

void copy_in(std::span<const float> values, std::vector<Tensor>& tensors) {
    DEDLOC_CHECK(values.size() == elements_of(tensors), "{} elements", values.size());
    if (tensors.empty()) return;
    const Tensor flat = view_of(values).to(tensors.front().device());
    std::int64_t offset = 0;
    for (Tensor& tensor : tensors) {
        const Tensor from = flat.narrow(0, offset, tensor.numel());
        if (is_plain(tensor))
            std::ranges::copy(values_of(from), values_of(tensor).begin());
        else
            tensor.copy_(from.view(tensor.sizes()));
        offset += tensor.numel();
    }
}

// Like each of `shapes`, zeros for what is not defined.
std::vector<Tensor> or_zeros(std::vector<Tensor> tensors, const std::vector<Tensor>& shapes) {
    tensors.resize(shapes.size());
    for (std::size_t i = 0; i < shapes.size(); ++i)
        if (!tensors[i].defined()) tensors[i] = torch::zeros_like(shapes[i]);
    return tensors;
}

Result<void> expect_fp32(const std::string& name, const Tensor& tensor) {
    if (tensor.scalar_type() == torch::kFloat32) return {};
    return make_error(ErrorKind::unsupported,
                      "'{}' of the model is not fp32 ({}); convert the model with "
                      "model->to(torch::kFloat32) before joining",
                      name,
                      torch::toString(tensor.scalar_type()));
}

bool is_finite(const Tensor& tensor) {
    torch::NoGradGuard no_grad;
    if (is_plain(tensor)) return tensor::all_finite(values_of(tensor));
    return torch::isfinite(tensor).all().item<bool>();
}

Result<void> check_parameter(const std::string& name, const Tensor& tensor) {
    DEDLOC_TRY_VOID(expect_fp32(name, tensor));
    if (is_finite(tensor)) return {};
    return make_error(ErrorKind::bad_input,
                      "'{}' holds numbers that are not finite; give it others before joining",
                      name);
}

// -inf in a mask, say: the mean of what peers bring would be NaN, and no step be made of it.
Result<void> check_buffer(const std::string& name, const Tensor& tensor) {
    DEDLOC_TRY_VOID(expect_fp32(name, tensor));
    if (is_finite(tensor)) return {};
    return make_error(ErrorKind::bad_input,
                      "'{}' holds numbers that are not finite; float buffers are averaged: keep "
                      "constants out of register_buffer, or make it bool, or a parameter with "
                      "requires_grad(false)",
                      name);
}

constexpr double whole_numbers_max = 1 << 24;  // fp32 holds all up to here

bool is_whole(const Tensor& tensor) {
    return torch::isIntegralType(tensor.scalar_type(), /*includeBool=*/true);
}

Result<void> check_whole_numbers(const std::string& name, const Tensor& tensor) {
    torch::NoGradGuard no_grad;
    if (tensor.to(torch::kFloat64).abs().max().item<double>() <= whole_numbers_max) return {};
    return make_error(ErrorKind::bad_input,
                      "'{}' holds whole numbers beyond {}, which are not averaged exactly; keep "
                      "them out of register_buffer, or name it in private_buffers",
                      name,
                      static_cast<std::int64_t>(whole_numbers_max));
}

template <typename Norm>
void add_unread_counter(std::set<const void*>& counters, const nn::Module& module) {
    const auto* norm = dynamic_cast<const Norm*>(&module);
    if (norm != nullptr && norm->options.momentum().has_value() &&
        norm->num_batches_tracked.defined())
        counters.insert(norm->num_batches_tracked.unsafeGetTensorImpl());
}

// Batches are counted for a mean over all of them; with a momentum nothing reads the counter.
std::set<const void*> unread_counters(const nn::Module& model) {
    std::set<const void*> counters;
    for (const auto& module : model.modules()) {
        add_unread_counter<nn::BatchNorm1dImpl>(counters, *module);
        add_unread_counter<nn::BatchNorm2dImpl>(counters, *module);
        add_unread_counter<nn::BatchNorm3dImpl>(counters, *module);
    }
    return counters;
}

Result<void> check_private_buffers(const nn::Module& module,
                                   const std::vector<std::string>& names) {
    const auto buffers = module.named_buffers();
    for (const std::string& name : names)
        if (!buffers.contains(name))
            return make_error(ErrorKind::bad_input,
                              "private_buffers names '{}', which is no buffer of the model",
                              name);
    return {};
}

}  // namespace

BufferKind kind_of_buffer(const std::string& name,
                          const Tensor& tensor,
                          const std::vector<std::string>& private_buffers) {
    if (std::ranges::find(private_buffers, name) != private_buffers.end())
        return BufferKind::kept_apart;
    if (tensor.is_floating_point()) return BufferKind::averaged;
    return is_whole(tensor) && tensor.numel() <= integer_elements_max ? BufferKind::averaged
                                                                      : BufferKind::constant;
}

Result<FlatModule> FlatModule::make(std::shared_ptr<nn::Module> module,
                                    const FlatOptions& options) {
    FlatModule flat(std::move(module));
    std::set<const void*> seen;
    DEDLOC_TRY_VOID(flat.take_parameters(seen));
    DEDLOC_TRY_VOID(flat.take_buffers(seen, options));
    if (flat.parameters_.empty()) {
        return make_error(ErrorKind::bad_input, "the model has no parameters to train");
    }
    flat.device_ = flat.parameters_.front().device();
    flat.taken_buffers_.resize(static_cast<std::size_t>(flat.layout_.buffers_count));
    torch::NoGradGuard no_grad;
    copy_out(flat.buffers_, flat.taken_buffers_);
    flat.remember_registration();
    flat.remember_versions();
    return flat;
}

namespace {

// 0: no matrix, for muon.
std::size_t columns_of(const Tensor& tensor) {
    return tensor.dim() == 2 ? static_cast<std::size_t>(tensor.size(1)) : 0;
}

}  // namespace

Result<void> FlatModule::take_parameters(std::set<const void*>& seen) {
    for (const auto& item : module_->named_parameters()) {
        const Tensor& tensor = item.value();
        if (!tensor.requires_grad() || !seen.insert(tensor.unsafeGetTensorImpl()).second) continue;
        DEDLOC_TRY_VOID(check_parameter(item.key(), tensor));
        const auto count = static_cast<std::size_t>(tensor.numel());
        if (count == 0) continue;
        layout_.parameters.push_back({.name = item.key(),
                                      .offset = layout_.parameters_count,
                                      .count = count,
                                      .decay = tensor.dim() >= 2,
                                      .columns = columns_of(tensor)});
        layout_.parameters_count += count;
        parameters_.push_back(tensor);
    }
    return {};
}

Result<void> FlatModule::take_buffers(std::set<const void*>& seen, const FlatOptions& options) {
    DEDLOC_TRY_VOID(check_private_buffers(*module_, options.private_buffers));
    if (!options.unread_counters) seen.merge(unread_counters(*module_));
    for (const auto& item : module_->named_buffers()) {
        const Tensor& tensor = item.value();
        if (!tensor.defined() || tensor.numel() == 0) continue;
        if (!seen.insert(tensor.unsafeGetTensorImpl()).second) continue;
        if (kind_of_buffer(item.key(), tensor, options.private_buffers) != BufferKind::averaged)
            continue;
        if (is_whole(tensor))
            DEDLOC_TRY_VOID(check_whole_numbers(item.key(), tensor));
        else
            DEDLOC_TRY_VOID(check_buffer(item.key(), tensor));
        layout_.buffers_count += static_cast<std::uint64_t>(tensor.numel());
        buffers_.push_back(tensor);
    }
    return {};
}

// The state keeps fractions of a counter: peers that computed unlike many batches add up to them.
std::vector<float> FlatModule::as_the_module_holds(std::span<const float> buffers) const {
    std::vector<float> values(buffers.begin(), buffers.end());
    std::size_t offset = 0;
    for (const Tensor& buffer : buffers_) {
        const auto count = static_cast<std::size_t>(buffer.numel());
        if (is_whole(buffer))
            for (float& value : std::span(values).subspan(offset, count))
                value = std::nearbyint(value);
        offset += count;
    }
    return values;
}

void FlatModule::load(std::span<const float> parameters, std::span<const float> buffers) {
    torch::NoGradGuard no_grad;
    copy_in(parameters, parameters_);
    taken_buffers_ = as_the_module_holds(buffers);
    copy_in(taken_buffers_, buffers_);
    remember_versions();
}

void FlatModule::remember_registration() {
    registered_.clear();
    for (const auto& item : module_->named_parameters())
        registered_.push_back({item.key(),
                               item.value().unsafeGetTensorImpl(),
                               item.value().requires_grad(),
                               item.value().scalar_type()});
}

void FlatModule::remember_versions() {
    versions_.clear();
    for (const Tensor& parameter : parameters_) versions_.push_back(parameter._version());
}

Result<void> FlatModule::check() {
    const auto now = module_->named_parameters();
    bool same = now.size() == registered_.size();
    for (std::size_t i = 0; same && i < registered_.size(); ++i) {
        const Registered& was = registered_[i];
        const Tensor& tensor = now[i].value();
        if (tensor.unsafeGetTensorImpl() != was.tensor) {
            same = false;
        } else if (tensor.requires_grad() != was.trained) {
            return make_error(ErrorKind::bad_input,
                              "'{}' was {} after the model had joined: what is trained is the same "
                              "on all peers of a run; leave, and join with the model as it is",
                              was.name,
                              was.trained ? "frozen" : "thawed");
        } else if (was.trained && tensor.scalar_type() != was.type) {
            return make_error(ErrorKind::bad_input,
                              "'{}' was converted to {} after the model had joined; parameters of "
                              "a run stay fp32 (compute in less with autocast)",
                              was.name,
                              torch::toString(tensor.scalar_type()));
        }
    }
    if (!same)
        return make_error(ErrorKind::bad_input,
                          "the model holds other parameters than those that joined: change their "
                          "values before joining, or leave, and join with this model");
    for (std::size_t i = 0; i < parameters_.size(); ++i)
        if (parameters_[i]._version() != versions_[i])
            return make_error(ErrorKind::bad_input,
                              "'{}' was changed in place since the last step, which the run would "
                              "undo: all peers hold the same parameters. Load values before "
                              "joining; use no second optimizer, and clip gradients, not weights",
                              layout_.parameters[i].name);
    // A model that moved computes on where it is now.
    device_ = parameters_.front().device();
    for (std::size_t i = 0; i < sums_.size(); ++i)
        if (sums_[i].defined()) sums_[i] = sums_[i].to(parameters_[i].device());
    return {};
}

void FlatModule::store(std::span<float> parameters, std::span<float> buffers) const {
    torch::NoGradGuard no_grad;
    copy_out(parameters_, parameters);
    copy_out(buffers_, buffers);
}

void FlatModule::take_buffer_changes(std::span<float> out, double scale) {
    torch::NoGradGuard no_grad;
    copy_out(buffers_, out);
    const auto factor = static_cast<float>(scale);
    for (std::size_t i = 0; i < out.size(); ++i) {
        const float before = std::exchange(taken_buffers_[i], out[i]);
        out[i] = factor * (out[i] - before);
    }
}

void FlatModule::make_gradients_dense() {
    torch::NoGradGuard no_grad;
    for (Tensor& parameter : parameters_) {
        Tensor& gradient = parameter.mutable_grad();
        if (gradient.defined() && gradient.layout() != torch::kStrided)
            gradient = gradient.to_dense();
    }
}

void FlatModule::take_gradients(std::span<float> out) {
    torch::NoGradGuard no_grad;
    make_gradients_dense();
    std::vector<Tensor> gradients;
    gradients.reserve(parameters_.size());
    for (const Tensor& parameter : parameters_) gradients.push_back(parameter.grad());
    copy_out(or_zeros(std::move(gradients), parameters_), out);
    forget_gradients();
}

bool FlatModule::has_gradients() const {
    return std::ranges::any_of(parameters_,
                               [](const Tensor& tensor) { return tensor.grad().defined(); });
}

// A sum is not finite when one of its terms is not. (Or when finite ones overflow: no better.)
bool FlatModule::gradients_are_sound(double norm_max) {
    make_gradients_dense();
    if (norm_max > 0) return gradients_norm() <= norm_max;  // NaN: false
    torch::NoGradGuard no_grad;
    Tensor total;  // of the others, so that a device is asked once
    for (const Tensor& parameter : parameters_) {
        const Tensor& gradient = parameter.grad();
        if (!gradient.defined()) continue;
        if (is_plain(gradient)) {
            if (!tensor::all_finite(values_of(gradient))) return false;
        } else {
            total = total.defined() ? total.add_(gradient.sum()) : gradient.sum();
        }
    }
    return !total.defined() || std::isfinite(total.item<float>());
}

double FlatModule::gradients_norm() const {
    torch::NoGradGuard no_grad;
    double squares = 0;
    Tensor others;  // so that a device is asked once
    for (const Tensor& parameter : parameters_) {
        const Tensor& gradient = parameter.grad();
        if (!gradient.defined()) continue;
        if (is_plain(gradient)) {
            squares += tensor::sum_of_squares(values_of(gradient));
        } else {
            const Tensor square = gradient.norm().square();
            others = others.defined() ? others.add_(square) : square;
        }
    }
    return std::sqrt(squares + (others.defined() ? others.item<double>() : 0.0));
}

void FlatModule::remember_buffers() {
    torch::NoGradGuard no_grad;
    remembered_buffers_.clear();
    for (const Tensor& buffer : buffers_) remembered_buffers_.push_back(buffer.clone());
}

void FlatModule::restore_buffers() {
    torch::NoGradGuard no_grad;
    DEDLOC_CHECK(remembered_buffers_.size() == buffers_.size());
    for (std::size_t i = 0; i < buffers_.size(); ++i) buffers_[i].copy_(remembered_buffers_[i]);
}

// The first gradient becomes the sum, and the next one is not added to zeros: each would be a pass
// over the model's memory a micro-batch.
void FlatModule::add_gradients(double scale) {
    torch::NoGradGuard no_grad;
    make_gradients_dense();
    sums_.resize(parameters_.size());
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
        const Tensor& gradient = parameters_[i].grad();
        if (!gradient.defined()) continue;
        if (!sums_[i].defined()) sums_[i] = scale == 1 ? gradient : gradient * scale;
        // Both: elements lie in the same order then.
        else if (is_plain(gradient) && is_plain(sums_[i]))
            tensor::add_weighted(
                values_of(sums_[i]), values_of(gradient), static_cast<float>(scale));
        else
            sums_[i].add_(gradient, scale);
    }
    forget_gradients();
}

void FlatModule::take_sums(std::span<float> out) {
    torch::NoGradGuard no_grad;
    copy_out(or_zeros(std::move(sums_), parameters_), out);
    forget_sums();
}

void FlatModule::forget_gradients() {
    for (Tensor& parameter : parameters_) parameter.mutable_grad() = Tensor();
}

void FlatModule::forget_sums() { sums_.clear(); }

Result<std::vector<float>> parameters_of(std::shared_ptr<torch::nn::Module> model) {
    DEDLOC_TRY(const FlatModule flat, FlatModule::make(std::move(model)));
    std::vector<float> parameters(flat.layout().parameters_count);
    flat.store(parameters, {});
    return parameters;
}

Result<void> load_for_evaluation(std::shared_ptr<torch::nn::Module> model,
                                 const torch::Device& device,
                                 std::span<const float> parameters,
                                 std::span<const float> buffers) {
    model->to(device);
    DEDLOC_TRY(FlatModule flat, FlatModule::make(model));
    if (flat.layout().parameters_count != parameters.size() || !buffers.empty())
        return make_error(ErrorKind::bad_input,
                          "{} parameters do not fit a model of {}",
                          parameters.size(),
                          flat.layout().parameters_count);
    flat.load(parameters, buffers);
    model->eval();
    return {};
}

}  // namespace dedloc::torch_bridge
