#include "dedloc/train/span_model.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "dedloc/base/check.h"
#include "dedloc/tensor/kernels.h"

namespace dedloc::train {
namespace {

constexpr double whole_numbers_max = 1 << 24;  // fp32 holds all up to here

std::span<float> floats_of(const PlacedTensor& tensor) {
    return {static_cast<float*>(tensor.values), static_cast<std::size_t>(tensor.count)};
}

std::span<const float> gradient_of(const PlacedTensor& tensor) {
    return {tensor.gradient, static_cast<std::size_t>(tensor.count)};
}

template <typename Number>
void read_whole(const PlacedTensor& tensor, std::span<float> out) {
    const auto* values = static_cast<const Number*>(tensor.values);
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(values[i]);
}

template <typename Number>
void write_whole(const PlacedTensor& tensor, std::span<const float> from) {
    auto* values = static_cast<Number*>(tensor.values);
    for (std::size_t i = 0; i < from.size(); ++i)
        values[i] = static_cast<Number>(std::nearbyint(from[i]));
}

void read_values(const PlacedTensor& tensor, std::span<float> out) {
    switch (tensor.type) {
        case ElementType::fp32:
            std::ranges::copy(floats_of(tensor), out.begin());
            break;
        case ElementType::int64:
            read_whole<std::int64_t>(tensor, out);
            break;
        case ElementType::int32:
            read_whole<std::int32_t>(tensor, out);
            break;
        case ElementType::uint8:
            read_whole<std::uint8_t>(tensor, out);
            break;
    }
}

void write_values(const PlacedTensor& tensor, std::span<const float> from) {
    switch (tensor.type) {
        case ElementType::fp32:
            std::ranges::copy(from, floats_of(tensor).begin());
            break;
        case ElementType::int64:
            write_whole<std::int64_t>(tensor, from);
            break;
        case ElementType::int32:
            write_whole<std::int32_t>(tensor, from);
            break;
        case ElementType::uint8:
            write_whole<std::uint8_t>(tensor, from);
            break;
    }
}

Ok check_tensor(const PlacedTensor& tensor) {
    if (tensor.trained && tensor.type != ElementType::fp32)
        return make_error(ErrorKind::unsupported,
                          "'{}' of the model is not fp32; convert the model before joining",
                          tensor.name);
    std::vector<float> values(static_cast<std::size_t>(tensor.count));
    read_values(tensor, values);
    if (!tensor::all_finite(values))
        return make_error(ErrorKind::bad_input,
                          "'{}' holds numbers that are not finite; give it others before joining "
                          "(constants such as a mask of -inf do not belong in a float buffer: "
                          "buffers are averaged)",
                          tensor.name);
    const bool whole = tensor.type != ElementType::fp32;
    if (whole && std::ranges::any_of(values, [](float value) {
            return std::fabs(static_cast<double>(value)) > whole_numbers_max;
        }))
        return make_error(ErrorKind::bad_input,
                          "'{}' holds whole numbers beyond {}, which are not averaged exactly; "
                          "name it in private_buffers",
                          tensor.name,
                          static_cast<std::int64_t>(whole_numbers_max));
    return {};
}

optim::ParameterGroup group_of(const PlacedTensor& tensor, std::uint64_t offset) {
    return {.name = tensor.name,
            .offset = static_cast<std::size_t>(offset),
            .count = static_cast<std::size_t>(tensor.count),
            .decay = tensor.decays,
            .columns = tensor.columns,
            .rate_factor = tensor.rate_factor,
            .weight_decay = tensor.weight_decay};
}

}  // namespace

run::Layout layout_of(const std::vector<PlacedTensor>& tensors) {
    run::Layout layout;
    for (const PlacedTensor& tensor : tensors) {
        if (!tensor.trained) {
            layout.buffers_count += tensor.count;
            continue;
        }
        layout.parameters.push_back(group_of(tensor, layout.parameters_count));
        layout.parameters_count += tensor.count;
    }
    return layout;
}

Result<std::unique_ptr<SpanModel>> SpanModel::make(std::vector<PlacedTensor> tensors) {
    for (const PlacedTensor& tensor : tensors) DEDLOC_TRY_VOID(check_tensor(tensor));
    if (std::ranges::none_of(tensors, &PlacedTensor::trained))
        return make_error(ErrorKind::bad_input, "the model has no parameters to train");
    return std::unique_ptr<SpanModel>(new SpanModel(std::move(tensors)));
}

SpanModel::SpanModel(std::vector<PlacedTensor> tensors) : layout_(layout_of(tensors)) {
    for (PlacedTensor& tensor : tensors)
        (tensor.trained ? parameters_ : buffers_).push_back(std::move(tensor));
    loaded_buffers_.resize(static_cast<std::size_t>(layout_.buffers_count));
    read_buffers(loaded_buffers_);
    remembered_buffers_ = loaded_buffers_;
}

void SpanModel::place(std::span<void* const> values, std::span<const float* const> gradients) {
    DEDLOC_CHECK(values.size() == parameters_.size() + buffers_.size());
    DEDLOC_CHECK(gradients.size() == parameters_.size());
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
        parameters_[i].values = values[i];
        parameters_[i].gradient = gradients[i];
    }
    for (std::size_t i = 0; i < buffers_.size(); ++i)
        buffers_[i].values = values[parameters_.size() + i];
}

Result<void> SpanModel::check() {
    for (const std::vector<PlacedTensor>* const tensors : {&parameters_, &buffers_})
        for (const PlacedTensor& tensor : *tensors)
            if (tensor.values == nullptr)
                return make_error(ErrorKind::bad_input,
                                  "'{}' lies nowhere: say where each tensor's memory is, before "
                                  "each step",
                                  tensor.name);
    return {};
}

void SpanModel::read_buffers(std::span<float> out) const {
    std::size_t offset = 0;
    for (const PlacedTensor& buffer : buffers_) {
        const auto count = static_cast<std::size_t>(buffer.count);
        read_values(buffer, out.subspan(offset, count));
        offset += count;
    }
}

void SpanModel::write_buffers(std::span<const float> values) {
    std::size_t offset = 0;
    for (const PlacedTensor& buffer : buffers_) {
        const auto count = static_cast<std::size_t>(buffer.count);
        write_values(buffer, values.subspan(offset, count));
        offset += count;
    }
}

void SpanModel::load(std::span<const float> parameters, std::span<const float> buffers) {
    for (std::size_t i = 0; i < parameters_.size(); ++i)
        std::ranges::copy(
            parameters.subspan(layout_.parameters[i].offset, layout_.parameters[i].count),
            floats_of(parameters_[i]).begin());
    write_buffers(buffers);
    read_buffers(loaded_buffers_);  // rounded, where they are whole numbers
    remembered_buffers_ = loaded_buffers_;
    forget_gradient();
}

void SpanModel::store(std::span<float> parameters, std::span<float> buffers) const {
    for (std::size_t i = 0; i < parameters_.size(); ++i)
        std::ranges::copy(floats_of(parameters_[i]),
                          parameters.subspan(layout_.parameters[i].offset).begin());
    read_buffers(buffers);
}

bool SpanModel::has_gradient() const {
    return std::ranges::any_of(
        parameters_, [](const PlacedTensor& tensor) { return tensor.gradient != nullptr; });
}

bool SpanModel::is_sound(double norm_max) {
    double squares = 0;
    for (const PlacedTensor& tensor : parameters_) {
        if (tensor.gradient == nullptr) continue;
        if (norm_max > 0)
            squares += tensor::sum_of_squares(gradient_of(tensor));
        else if (!tensor::all_finite(gradient_of(tensor)))
            return false;
    }
    return norm_max <= 0 || std::sqrt(squares) <= norm_max;  // NaN: false
}

void SpanModel::add(double scale) {
    sum_.resize(static_cast<std::size_t>(layout_.parameters_count));
    if (!has_sum_) std::ranges::fill(sum_, 0.0f);
    has_sum_ = true;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
        if (parameters_[i].gradient == nullptr) continue;
        const auto& group = layout_.parameters[i];
        tensor::add_weighted(std::span(sum_).subspan(group.offset, group.count),
                             gradient_of(parameters_[i]),
                             static_cast<float>(scale));
    }
    forget_gradient();
    read_buffers(remembered_buffers_);
}

void SpanModel::leave_out() {
    forget_gradient();
    write_buffers(remembered_buffers_);
}

void SpanModel::forget_gradient() {
    for (PlacedTensor& tensor : parameters_) tensor.gradient = nullptr;
}

void SpanModel::take_sum(std::span<float> gradient_sum) {
    if (has_sum_)
        std::ranges::copy(sum_, gradient_sum.begin());
    else
        std::ranges::fill(gradient_sum, 0.0f);
    has_sum_ = false;
}

void SpanModel::take_buffers(std::span<float> changes, double scale) {
    read_buffers(changes);
    const auto factor = static_cast<float>(scale);
    for (std::size_t i = 0; i < changes.size(); ++i) {
        const float before = std::exchange(loaded_buffers_[i], changes[i]);
        changes[i] = factor * (changes[i] - before);
    }
}

}  // namespace dedloc::train
