// The weights of a module as a safetensors file: fp32 parameters and buffers under the names that
// they have in the module. What BatchNorm counts in integers is no part of a state, and changes no
// answer.
//
// Only for files that see libtorch. Thread: any. Cost: a copy of the weights.

#pragma once
#include <string>
#include <torch/nn.h>
#include <utility>
#include <vector>

#include "dedloc/tasks/safetensors.h"

namespace dedloc::tasks {

// `model`: its name, in the file's metadata.
inline Bytes module_weights(const torch::nn::Module& module, std::string model) {
    Safetensors file;
    file.metadata["format"] = "pt";
    file.metadata["model"] = std::move(model);
    std::vector<torch::Tensor> kept;
    const auto add = [&](const std::string& key, const torch::Tensor& tensor) {
        if (tensor.scalar_type() != torch::kFloat32) return;
        kept.push_back(tensor.detach().cpu().contiguous());
        const auto* bytes = static_cast<const std::uint8_t*>(kept.back().data_ptr());
        file.tensors[key] = {.type = SafetensorsType::f32,
                             .shape = kept.back().sizes().vec(),
                             .data = ByteView(bytes, kept.back().nbytes())};
    };
    for (const auto& item : module.named_parameters()) add(item.key(), item.value());
    for (const auto& item : module.named_buffers()) add(item.key(), item.value());
    return encode_safetensors(file);
}

}  // namespace dedloc::tasks
