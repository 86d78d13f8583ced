// The weights of a module as a safetensors file: fp32 tensors under the names that they have in the
// module, or the same rounded to bf16. What BatchNorm counts in integers is no part of a state, and
// changes no answer.
//
// Only for files that see libtorch. Thread: any. Cost: a copy of the weights.

#pragma once
#include <string>
#include <torch/nn.h>
#include <utility>
#include <vector>

#include "dedloc/tasks/safetensors.h"

namespace dedloc::tasks {

class WeightsFile {
  public:
    WeightsFile() { file_.metadata["format"] = "pt"; }  // Hugging Face's reader insists

    void describe(const std::string& key, std::string value) {
        file_.metadata[key] = std::move(value);
    }
    // Tensors of other types than fp32 are left out. `as`: f32, or bf16, to which they are rounded.
    void add(const std::string& key,
             const torch::Tensor& tensor,
             SafetensorsType as = SafetensorsType::f32) {
        if (tensor.scalar_type() != torch::kFloat32) return;
        const auto type = as == SafetensorsType::bf16 ? torch::kBFloat16 : torch::kFloat32;
        kept_.push_back(tensor.detach().cpu().to(type).contiguous());
        const auto* bytes = static_cast<const std::uint8_t*>(kept_.back().data_ptr());
        file_.tensors[key] = {.type = as,
                              .shape = kept_.back().sizes().vec(),
                              .data = ByteView(bytes, kept_.back().nbytes())};
    }
    void add_parameters(const torch::nn::Module& module) {
        for (const auto& item : module.named_parameters()) add(item.key(), item.value());
    }
    Bytes encoded() const { return encode_safetensors(file_); }

  private:
    Safetensors file_;
    std::vector<torch::Tensor> kept_;  // the file views them
};

// Parameters and buffers. `model`: its name, in the file's metadata.
inline Bytes module_weights(const torch::nn::Module& module, std::string model) {
    WeightsFile file;
    file.describe("model", std::move(model));
    file.add_parameters(module);
    for (const auto& item : module.named_buffers()) file.add(item.key(), item.value());
    return file.encoded();
}

}  // namespace dedloc::tasks
