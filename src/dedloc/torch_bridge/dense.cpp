#include "dedloc/torch_bridge/dense.h"

#include <cmath>
#include <span>
#include <torch/version.h>
#include <vector>

#include "dedloc/tensor/kernels.h"
#include "dedloc/torch_bridge/autocast.h"

namespace dedloc::torch_bridge {

namespace {

using torch::Tensor;

// Multiplications of one head, below which libtorch's own loop is quicker (24 x 24 x 24: 6 times,
// 64 x 64 x 32: as quick).
constexpr std::int64_t small_product = 1 << 16;

bool ask_onednn(const Tensor& tensor) {
    static const bool there = at::globalContext().hasMKLDNN();
    return there && tensor.is_cpu() && tensor.scalar_type() == torch::kFloat32 &&
           tensor.numel() > 0 && !autocast_is_on(torch::kCPU);
}

Tensor product(const Tensor& inputs, const Tensor& weight, const Tensor& bias) {
    return at::mkldnn_linear(inputs.to_mkldnn(), weight, bias).to_dense();
}

// Text is written a row at a time. oneDNN would bring the whole weight into an order of its own
// each time, which costs more than the product.
bool is_one_row(const Tensor& rows, const Tensor& weight) {
    return rows.size(0) == 1 && !torch::GradMode::is_enabled() && rows.is_contiguous() &&
           weight.is_contiguous() && weight.scalar_type() == torch::kFloat32;
}

Tensor product_of_row(const Tensor& row, const Tensor& weight, const Tensor& bias) {
    const auto from = static_cast<std::size_t>(weight.size(1));
    const std::span<const float> x{row.data_ptr<float>(), from};
    const float* rows = weight.data_ptr<float>();
    Tensor out = torch::empty({1, weight.size(0)}, row.options());
    const std::span<float> y{out.data_ptr<float>(), static_cast<std::size_t>(out.numel())};
    for (std::size_t i = 0; i < y.size(); ++i)
        y[i] = static_cast<float>(tensor::dot(x, {rows + i * from, from}));
    return bias.defined() ? out + bias : out;
}

// Each of [groups, columns, inner] times the one of [groups, other, inner] transposed.
Tensor products(const Tensor& left, const Tensor& right) {
    const std::vector<Tensor> lefts = left.unbind(0);
    const std::vector<Tensor> rights = right.unbind(0);
    std::vector<Tensor> out;
    out.reserve(lefts.size());
    for (std::size_t i = 0; i < lefts.size(); ++i) out.push_back(product(lefts[i], rights[i], {}));
    return torch::stack(out);
}

}  // namespace

Tensor dense(const Tensor& inputs, const Tensor& weight, const Tensor& bias) {
    if (!ask_onednn(inputs)) return torch::linear(inputs, weight, bias);
    std::vector<std::int64_t> shape = inputs.sizes().vec();
    const Tensor rows = inputs.reshape({-1, shape.back()});
    shape.back() = weight.size(0);
    if (is_one_row(rows, weight)) return product_of_row(rows, weight, bias).view(shape);
    return product(rows, weight, bias).view(shape);
}

Tensor attention(const Tensor& queries,
                 const Tensor& keys,
                 const Tensor& values,
                 const Tensor& mask,
                 double scale,
                 const Tensor& keep) {
#if TORCH_VERSION_MAJOR > 2 || (TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR >= 1)
    // On a GPU in one kernel, which does not keep the weights: of 512 columns they would be most of
    // the memory.
    if (!queries.is_cpu() && !keep.defined())
        return at::scaled_dot_product_attention(queries, keys, values, mask, 0, false, scale);
#endif
    bool onednn = ask_onednn(queries);
    const std::int64_t rows = queries.size(0);
    const std::int64_t heads = queries.size(1);
    const std::int64_t columns = queries.size(2);
    const std::int64_t width = queries.size(3);
    const auto grouped = [&](const Tensor& tensor) {
        return tensor.reshape({rows * heads, columns, width});
    };
    // Each product is a call of its own there, which costs more than a small one.
    onednn = onednn && columns * columns * width > small_product;
    Tensor scores =
        onednn ? products(grouped(queries), grouped(keys)).view({rows, heads, columns, columns})
               : torch::matmul(queries, keys.transpose(2, 3));
    Tensor weights = torch::softmax(scores * scale + mask, -1);
    if (keep.defined()) weights = weights * keep;
    if (!onednn) return torch::matmul(weights, values);
    const Tensor across = grouped(values).transpose(1, 2).contiguous();
    return products(weights.view({rows * heads, columns, columns}), across)
        .view({rows, heads, columns, width});
}

}  // namespace dedloc::torch_bridge
