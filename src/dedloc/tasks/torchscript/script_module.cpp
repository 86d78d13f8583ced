#include "dedloc/tasks/torchscript/script_module.h"

#include <algorithm>
#include <sstream>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/script.h>

#include "dedloc/tasks/torchscript/script_archive.h"
#include "dedloc/tasks/torchscript/script_graph.h"
#include "dedloc/torch_bridge/flat_module.h"

namespace dedloc::tasks {

namespace {

namespace jit = torch::jit;
using torch_bridge::TorchBatch;
using torch_bridge::TorchLoss;
using torch_bridge::TorchModel;

class ScriptModule final : public torch::nn::Module {
  public:
    explicit ScriptModule(const jit::Module& script) : script_(script) {
        for (const auto& item : script.named_parameters(/*recurse=*/false))
            register_parameter(item.name, item.value, item.value.requires_grad());
        for (const auto& item : script.named_buffers(/*recurse=*/false))
            register_buffer(item.name, item.value);
        for (const auto& item : script.named_children())
            register_module(item.name, std::make_shared<ScriptModule>(item.value));
    }
    void train(bool on) override {
        torch::nn::Module::train(on);
        script_.train(on);
    }
    jit::Module& script() { return script_; }

  private:
    jit::Module script_;
};

std::string first_line_of(const std::exception& failure) {
    const std::string text = failure.what();
    return text.substr(0, text.find('\n'));
}

// A tensor may claim more numbers than the file has (an expanded one).
Ok check_sizes(const jit::Module& script) {
    std::uint64_t bytes = 0;
    const auto add = [&](const torch::Tensor& tensor) {
        const auto count = static_cast<std::uint64_t>(tensor.numel());
        bytes += std::min<std::uint64_t>(count, script_file_bytes_max + 1) *
                 static_cast<std::uint64_t>(tensor.element_size());
        return bytes <= script_file_bytes_max;
    };
    bool fits = true;
    for (const torch::Tensor& tensor : script.parameters()) fits = fits && add(tensor);
    for (const torch::Tensor& tensor : script.buffers()) fits = fits && add(tensor);
    if (fits) return {};
    return make_error(ErrorKind::bad_input,
                      "the TorchScript model's tensors are more than {} bytes",
                      script_file_bytes_max);
}

enum class Takes { inputs, inputs_and_targets };

Result<Takes> signature(const jit::Module& script) {
    const c10::FunctionSchema schema = script.get_method("forward").function().getSchema();
    const auto& arguments = schema.arguments();
    const auto& returns = schema.returns();
    const auto is_tensor = [](const c10::TypePtr& type) {
        return type->kind() == c10::TypeKind::TensorType;
    };
    bool fits = returns.size() == 1 && (arguments.size() == 2 || arguments.size() == 3);
    for (std::size_t i = 1; fits && i < arguments.size(); ++i)
        fits = is_tensor(arguments[i].type());
    if (fits && arguments.size() == 2 && is_tensor(returns[0].type())) return Takes::inputs;
    if (fits && arguments.size() == 3) {
        const auto pair = returns[0].type()->cast<c10::TupleType>();
        if (pair && pair->elements().size() == 2 && is_tensor(pair->elements()[0]) &&
            is_tensor(pair->elements()[1]))
            return Takes::inputs_and_targets;
    }
    return make_error(ErrorKind::bad_input,
                      "the TorchScript model's forward must be (inputs, targets) -> (sum of the "
                      "losses, right answers), all of them tensors, or (inputs) -> logits");
}

TorchModel torch_model_of(const std::shared_ptr<ScriptModule>& module, Takes takes) {
    TorchModel model{.module = module};
    model.loss = [module, takes](const TorchBatch& batch) -> TorchLoss {
        const jit::GraphOptimizerEnabledGuard as_it_stands(false);
        if (takes == Takes::inputs)
            return torch_bridge::classification_loss(
                module->script().forward({batch.inputs}).toTensor(), batch.targets);
        const auto both = module->script().forward({batch.inputs, batch.targets}).toTuple();
        return {.sum = both->elements()[0].toTensor(), .correct = both->elements()[1].toTensor()};
    };
    return model;
}

}  // namespace

Result<TorchModel> load_script_model(ByteView file) {
    try {
        std::istringstream in{std::string(base::as_text(file))};
        const jit::Module script = jit::load(in, torch::kCPU);
        DEDLOC_TRY_VOID(check_sizes(script));
        DEDLOC_TRY_VOID(check_script_graphs(script));
        DEDLOC_TRY(const Takes takes, signature(script));
        const auto module = std::make_shared<ScriptModule>(script);
        DEDLOC_TRY_VOID(torch_bridge::FlatModule::make(module));
        return torch_model_of(module, takes);
    } catch (const std::exception& failure) {
        return make_error(ErrorKind::bad_input,
                          "the TorchScript model cannot be loaded: {}",
                          first_line_of(failure));
    }
}

Result<Bytes> write_script_model(const TorchModel& model) {
    try {
        auto* module = dynamic_cast<ScriptModule*>(model.module.get());
        DEDLOC_CHECK(module != nullptr, "a model of another kind");
        std::ostringstream out;
        module->script().save(out);
        return to_bytes(out.str());
    } catch (const std::exception& failure) {
        return make_error(
            ErrorKind::cannot_compute, "writing TorchScript: {}", first_line_of(failure));
    }
}

}  // namespace dedloc::tasks
