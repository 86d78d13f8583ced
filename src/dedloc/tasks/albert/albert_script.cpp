// The TorchScript of albert_weights.h: AlbertModel::forward once more, in the language that
// libtorch's interpreter reads, over a tree of script modules with the same parameters.

#include <cmath>
#include <sstream>
#include <torch/script.h>

#include "dedloc/tasks/albert/albert_weights.h"

namespace dedloc::tasks {

namespace {

// L. and so on are abbreviations, replaced below.
constexpr const char* source = R"(
def forward(self, input_ids: Tensor, attention_mask: Tensor,
            token_type_ids: Tensor) -> Tuple[Tensor, Tensor]:
    rows = input_ids.size(0)
    columns = input_ids.size(1)
    mask = ((1.0 - attention_mask) * -3.0e38).unsqueeze(1).unsqueeze(1)
    x = torch.embedding(E.word_embeddings.weight, input_ids)
    x = x + torch.embedding(E.token_type_embeddings.weight, token_type_ids)
    x = x + E.position_embeddings.weight.narrow(0, 0, columns)
    x = torch.layer_norm(x, [$embedding], E.LayerNorm.weight, E.LayerNorm.bias, $epsilon)
    x = torch.linear(x, M.weight, M.bias)
    for i in range($layers):
        q = torch.linear(x, A.query.weight, A.query.bias)
        k = torch.linear(x, A.key.weight, A.key.bias)
        v = torch.linear(x, A.value.weight, A.value.bias)
        q = q.view([rows, columns, $heads, $width]).transpose(1, 2)
        k = k.view([rows, columns, $heads, $width]).transpose(1, 2)
        v = v.view([rows, columns, $heads, $width]).transpose(1, 2)
        weights = torch.softmax(torch.matmul(q, k.transpose(2, 3)) * $scale + mask, -1)
        context = torch.matmul(weights, v).transpose(1, 2).reshape([rows, columns, $hidden])
        a = x + torch.linear(context, A.dense.weight, A.dense.bias)
        a = torch.layer_norm(a, [$hidden], A.LayerNorm.weight, A.LayerNorm.bias, $epsilon)
        f = torch.gelu(torch.linear(a, L.ffn.weight, L.ffn.bias), approximate="tanh")
        f = torch.linear(f, L.ffn_output.weight, L.ffn_output.bias)
        x = torch.layer_norm(f + a, [$hidden], N.weight, N.bias, $epsilon)
    w = torch.gelu(torch.linear(x, P.dense.weight, P.dense.bias), approximate="tanh")
    w = torch.layer_norm(w, [$embedding], P.LayerNorm.weight, P.LayerNorm.bias, $epsilon)
    words = torch.linear(w, E.word_embeddings.weight, P.bias)
    pooled = torch.tanh(torch.linear(x.select(1, 0), B.weight, B.bias))
    order = torch.linear(pooled, S.weight, S.bias)
    return (words, order)
)";

void replace_all(std::string& text, const std::string& from, const std::string& to) {
    for (std::size_t at = text.find(from); at != std::string::npos;
         at = text.find(from, at + to.size()))
        text.replace(at, from.size(), to);
}

std::string source_for(const AlbertConfig& config) {
    std::string text = source;
    const std::int64_t width = config.hidden / config.heads;
    replace_all(text, "$embedding", fmt::format("{}", config.embedding));
    replace_all(text, "$hidden", fmt::format("{}", config.hidden));
    replace_all(text, "$layers", fmt::format("{}", config.layers));
    replace_all(text, "$heads", fmt::format("{}", config.heads));
    replace_all(text, "$width", fmt::format("{}", width));
    replace_all(text, "$epsilon", fmt::format("{}", albert_norm_epsilon));
    replace_all(text, "$scale", fmt::format("{}", 1 / std::sqrt(static_cast<double>(width))));
    // self.groups.0 is not TorchScript.
    const std::string layer =
        R"(getattr(getattr(self.albert.encoder.albert_layer_groups, "0").albert_layers, "0").)";
    for (const char* before : {" ", "(", "["}) {
        const std::string b = before;
        replace_all(text, b + "E.", b + "self.albert.embeddings.");
        replace_all(text, b + "M.", b + "self.albert.encoder.embedding_hidden_mapping_in.");
        replace_all(text, b + "A.", b + layer + "attention.");
        replace_all(text, b + "L.", b + layer);
        replace_all(text, b + "N.", b + layer + "full_layer_layer_norm.");
        replace_all(text, b + "P.", b + "self.predictions.");
        replace_all(text, b + "B.", b + "self.albert.pooler.");
        replace_all(text, b + "S.", b + "self.sop_classifier.classifier.");
    }
    return text;
}

torch::jit::Module scripted(const torch::nn::Module& module,
                            const std::string& type_name,
                            const std::shared_ptr<torch::jit::CompilationUnit>& unit) {
    torch::jit::Module result(c10::QualifiedName(type_name), unit);
    for (const auto& item : module.named_parameters(false))
        result.register_parameter(item.key(), item.value().detach().cpu().clone(), false);
    for (const auto& item : module.named_children())
        result.register_module(item.key(),
                               scripted(*item.value(), type_name + "_" + item.key(), unit));
    return result;
}

}  // namespace

Result<Bytes> albert_torchscript(const AlbertModel& model) {
    try {
        const auto unit = std::make_shared<torch::jit::CompilationUnit>();
        torch::jit::Module module = scripted(model, "__torch__.Albert", unit);
        module.define(source_for(model.config()));
        module.eval();
        std::ostringstream out;
        module.save(out);
        return to_bytes(out.str());
    } catch (const std::exception& failure) {
        return make_error(ErrorKind::cannot_compute, "TorchScript: {}", failure.what());
    }
}

}  // namespace dedloc::tasks
