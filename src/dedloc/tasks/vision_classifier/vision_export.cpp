#include "dedloc/tasks/vision_classifier/vision_export.h"

#include <fmt/ranges.h>
#include <sstream>
#include <torch/script.h>
#include <vector>

#include "dedloc/tasks/vision_classifier/vision_models.h"

namespace dedloc::tasks {
namespace {

constexpr std::string_view class_names[] = {"T-shirt/top",
                                            "Trouser",
                                            "Pullover",
                                            "Dress",
                                            "Coat",
                                            "Sandal",
                                            "Shirt",
                                            "Sneaker",
                                            "Bag",
                                            "Ankle boot"};

// One layer, as people read it, and as TorchScript computes it from x.
struct Layer {
    std::string words;
    std::string script;
};

Layer layer_of(const std::string& key, const torch::nn::Module& module) {
    const std::string self = fmt::format("getattr(self, \"{}\").", key);
    if (const auto* conv = module.as<torch::nn::Conv2d>()) {
        const std::int64_t stride = conv->options.stride()->front();
        // The padding of libtorch's own variant, or of the standard's in newer ones.
        const auto* padding = get_if<torch::ExpandingArray<2>>(&conv->options.padding());
        const std::int64_t pad = padding == nullptr ? 0 : (*padding)->front();
        return {
            fmt::format("conv2d {}x{}, {} to {}, stride {}, padding {}",
                        conv->weight.size(2),
                        conv->weight.size(3),
                        conv->weight.size(1),
                        conv->weight.size(0),
                        stride,
                        pad),
            fmt::format(
                "torch.conv2d(x, {0}weight, {0}bias, [{1}, {1}], [{2}, {2}])", self, stride, pad)};
    }
    if (const auto* norm = module.as<torch::nn::BatchNorm2d>())
        return {fmt::format("batch_norm {}", norm->weight.size(0)),
                fmt::format("torch.batch_norm(x, {0}weight, {0}bias, {0}running_mean, "
                            "{0}running_var, False, 0.0, {1}, False)",
                            self,
                            norm->options.eps())};
    if (const auto* dense = module.as<torch::nn::Linear>())
        return {fmt::format("dense, {} to {}", dense->weight.size(1), dense->weight.size(0)),
                fmt::format("torch.matmul(x, {0}weight.t()) + {0}bias", self)};
    if (module.as<torch::nn::Flatten>()) return {"flatten", "torch.flatten(x, 1)"};
    DEDLOC_CHECK(module.as<torch::nn::ReLU>() != nullptr, "{}", module.name());
    return {"relu", "torch.relu(x)"};
}

torch::jit::Module scripted_layer(const torch::nn::Module& module,
                                  const std::string& type_name,
                                  const std::shared_ptr<torch::jit::CompilationUnit>& unit) {
    torch::jit::Module result(c10::QualifiedName(type_name), unit);
    for (const auto& item : module.named_parameters(false))
        result.register_parameter(item.key(), item.value().detach().cpu().clone(), false);
    for (const auto& item : module.named_buffers(false))
        result.register_buffer(item.key(), item.value().detach().cpu().clone());
    for (const auto& item : module.named_children())
        result.register_module(item.key(),
                               scripted_layer(*item.value(), type_name + "_" + item.key(), unit));
    return result;
}

}  // namespace

std::string vision_config_json(const torch::nn::Module& model, const std::string& name) {
    std::vector<std::string> layers;
    for (const auto& item : model.named_children())
        layers.push_back(fmt::format("\"{}\"", layer_of(item.key(), *item.value()).words));
    std::vector<std::string> classes;
    for (const std::string_view one : class_names) classes.push_back(fmt::format("\"{}\"", one));
    return fmt::format(
        "{{\n"
        "  \"architecture\": \"{}\",\n"
        "  \"layers\": [{}],\n"
        "  \"input\": {{\"channels\": 1, \"height\": {}, \"width\": {}}},\n"
        "  \"normalization\": {{\"scale\": {:.9g}, \"mean\": [{:.4f}], \"std\": [{:.4f}]}},\n"
        "  \"classes\": [{}]\n"
        "}}\n",
        name,
        fmt::join(layers, ", "),
        image_side,
        image_side,
        1.0 / 255,
        pixel_mean,
        pixel_deviation,
        fmt::join(classes, ", "));
}

Result<Bytes> vision_torchscript(const torch::nn::Module& model) {
    try {
        std::string source = "def forward(self, x: Tensor) -> Tensor:\n";
        for (const auto& item : model.named_children())
            source += "    x = " + layer_of(item.key(), *item.value()).script + "\n";
        source += "    return x\n";
        const auto unit = std::make_shared<torch::jit::CompilationUnit>();
        torch::jit::Module module = scripted_layer(model, "__torch__.VisionClassifier", unit);
        module.define(source);
        module.eval();
        std::ostringstream out;
        module.save(out);
        return to_bytes(out.str());
    } catch (const std::exception& failure) {
        return make_error(ErrorKind::cannot_compute, "TorchScript: {}", failure.what());
    }
}

}  // namespace dedloc::tasks
