#include "dedloc/train/vector_model.h"

#include <algorithm>

#include "dedloc/base/check.h"

namespace dedloc::train {

VectorModel::VectorModel(run::Layout layout, std::vector<float> parameters)
    : layout_(std::move(layout)), parameters_(std::move(parameters)), sum_(parameters_.size()) {
    DEDLOC_CHECK(layout_.parameters_count == parameters_.size() && layout_.buffers_count == 0);
}

void VectorModel::load(std::span<const float> parameters, std::span<const float>) {
    parameters_.assign(parameters.begin(), parameters.end());
}

void VectorModel::store(std::span<float> parameters, std::span<float>) const {
    std::ranges::copy(parameters_, parameters.begin());
}

void VectorModel::take_sum(std::span<float> gradient_sum) {
    std::ranges::copy(sum_, gradient_sum.begin());
    forget_sum();
}

}  // namespace dedloc::train
