// Dense layers that are fast on Debian's libtorch.
//
// There, torch::linear ends in the reference BLAS. oneDNN, which is in the same libtorch, computes
// the same product 20 to 80 times faster (measured forward and back, one core: 2,048 x 1,024 times
// 4,096 x 1,024: 46 s and 0.54 s; 2,048 x 128 times 512 x 128: 593 ms and 11 ms), but libtorch asks
// it only for bf16. For fp32 on the CPU these functions do. Elsewhere, and under autocast, they are
// torch's.
//
// Errors: libtorch's exceptions. Thread: any.

#pragma once
#include "dedloc/torch_bridge/libtorch.h"

namespace dedloc::torch_bridge {

// inputs [..., from] times weight [to, from] transposed, plus bias [to]; without: undefined.
torch::Tensor dense(const torch::Tensor& inputs,
                    const torch::Tensor& weight,
                    const torch::Tensor& bias);

// softmax(queries keys^T scale + mask) values, each [rows, heads, columns, width]; mask is added
// and broadcasts to [rows, heads, columns, columns]. keep: multiplied into the weights after the
// softmax (dropout), or undefined.
torch::Tensor attention(const torch::Tensor& queries,
                        const torch::Tensor& keys,
                        const torch::Tensor& values,
                        const torch::Tensor& mask,
                        double scale,
                        const torch::Tensor& keep);

}  // namespace dedloc::torch_bridge
