#include "dedloc/tasks/language_model/decoder.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <optional>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/nn/functional/embedding.h>
#include <torch/nn/functional/loss.h>
#include <utility>

#include "dedloc/torch_bridge/autocast.h"
#include "dedloc/torch_bridge/dense.h"
#include "dedloc/torch_bridge/register_at.h"

namespace dedloc::tasks {

namespace {

using torch::Tensor;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
namespace functional = torch::nn::functional;

// Added to attention's scores where a token is not seen: exp gives 0.
constexpr double minus_infinity = -3.0e38;

using LayerFunction = std::function<Tensor(const Tensor&)>;

struct KeptLayer : torch::CustomClassHolder {
    LayerFunction layer;
    std::optional<torch::ScalarType> autocast;  // in which it was computed
};

// Keeps a layer's input, and computes the layer again on the way back.
class Recomputed : public torch::autograd::Function<Recomputed> {
  public:
    static Tensor forward(AutogradContext* context,
                          const Tensor& inputs,
                          const c10::intrusive_ptr<KeptLayer>& kept) {
        const torch::DeviceType device = inputs.device().type();
        if (torch_bridge::autocast_is_on(device))
            kept->autocast = torch_bridge::autocast_type(device);
        context->save_for_backward({inputs});
        context->saved_data["layer"] = torch::IValue::make_capsule(kept);
        return kept->layer(inputs.detach());
    }

    static variable_list backward(AutogradContext* context, variable_list gradients) {
        const auto capsule = context->saved_data["layer"].toCapsule();
        const auto& kept = static_cast<const KeptLayer&>(*capsule);
        const torch::AutoGradMode on(true);
        Tensor leaf = context->get_saved_variables()[0].detach();
        leaf.requires_grad_(true);
        Tensor output;
        {
            std::optional<torch_bridge::Autocast> autocast;
            if (kept.autocast) autocast.emplace(leaf.device().type(), *kept.autocast);
            output = kept.layer(leaf);
        }
        torch::autograd::backward({output}, {gradients[0]});
        return {leaf.grad(), Tensor()};
    }
};

Tensor recomputed(const Tensor& inputs, LayerFunction layer) {
    auto kept = c10::make_intrusive<KeptLayer>();
    kept->layer = std::move(layer);
    return Recomputed::apply(inputs, kept);
}

Tensor matrix_of(const std::vector<std::int64_t>& values, std::int64_t rows, std::int64_t columns) {
    return torch::tensor(torch::ArrayRef<std::int64_t>(values), torch::kInt64)
        .view({rows, columns});
}

// Each group of heads has the same keys or values.
Tensor for_all_heads(const Tensor& tensor, std::int64_t heads) {
    const std::int64_t times = heads / tensor.size(1);
    return times == 1 ? tensor : tensor.repeat_interleave(times, 1);
}

}  // namespace

Tensor Decoder::Dense::operator()(const Tensor& inputs) const {
    const Tensor outputs = torch_bridge::dense(inputs, weight, bias);
    if (!lora_a.defined()) return outputs;
    const Tensor narrow = torch_bridge::dense(inputs, lora_a, {});
    return outputs + torch_bridge::dense(narrow, lora_b, {}) * lora_scale;
}

Decoder::Decoder(const DecoderConfig& config, std::uint64_t seed)
    : torch::nn::Module("Decoder"),
      config_(config),
      generator_(at::detail::createCPUGenerator(seed)) {
    torch::NoGradGuard no_grad;
    const double residual =
        decoder_initial_deviation / std::sqrt(2 * static_cast<double>(config.layers));
    if (config.family == DecoderFamily::gpt2)
        make_gpt2(residual);
    else
        make_llama(residual);
    if (!config.lora.is_on()) return;
    add_adapters();
    freeze_base();
}

// Uniform as `peft` draws the first, zero as the second: at first nothing is added.
void Decoder::adapt(const std::string& path, Dense& to) {
    const std::int64_t rank = config_.lora.rank;
    const double bound = 1 / std::sqrt(static_cast<double>(to.weight.size(1)));
    to.lora_a =
        parameter(path + ".lora_A.weight",
                  torch::empty({rank, to.weight.size(1)}).uniform_(-bound, bound, generator_));
    to.lora_b = parameter(path + ".lora_B.weight", torch::zeros({to.weight.size(0), rank}));
    to.lora_scale = config_.lora.scale();
}

void Decoder::add_adapters() {
    const bool is_gpt2 = config_.family == DecoderFamily::gpt2;
    const bool all = config_.lora.everywhere();
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
        Block& block = blocks_[i];
        const std::string path =
            fmt::format("{}{}.", is_gpt2 ? "transformer.h." : "model.layers.", i);
        adapt(path + (is_gpt2 ? "attn.c_attn" : "self_attn.q_proj"), block.queries);
        if (!is_gpt2) adapt(path + "self_attn.v_proj", block.values);
        if (!all) continue;
        if (!is_gpt2) adapt(path + "self_attn.k_proj", block.keys);
        adapt(path + (is_gpt2 ? "attn.c_proj" : "self_attn.o_proj"), block.out);
        if (!is_gpt2) adapt(path + "mlp.gate_proj", block.gate);
        adapt(path + (is_gpt2 ? "mlp.c_fc" : "mlp.up_proj"), block.widen);
        adapt(path + (is_gpt2 ? "mlp.c_proj" : "mlp.down_proj"), block.narrow);
    }
}

bool Decoder::is_adapter(const std::string& name) {
    return name.find(".lora_") != std::string::npos;
}

void Decoder::freeze_base() {
    for (auto& item : named_parameters())
        if (!is_adapter(item.key())) item.value().set_requires_grad(false);
}

void Decoder::share_frozen(const Decoder& other) {
    const auto theirs = other.named_parameters();
    for (auto& item : named_parameters())
        if (!is_adapter(item.key())) item.value().set_data(theirs[item.key()]);
}

void Decoder::merge_adapters() {
    const torch::NoGradGuard no_grad;
    for (Block& block : blocks_)
        for (Dense* one : {&block.queries,
                           &block.keys,
                           &block.values,
                           &block.out,
                           &block.widen,
                           &block.gate,
                           &block.narrow}) {
            if (!one->lora_a.defined()) continue;
            // Not in place: the frozen weights may be another model's as well.
            one->weight.set_data(one->weight +
                                 torch::matmul(one->lora_b, one->lora_a) * one->lora_scale);
            one->lora_b.zero_();
        }
}

void Decoder::make_gpt2(double residual_deviation) {
    const std::int64_t h = config_.hidden;
    const double word_deviation =
        std::min(decoder_initial_deviation, 0.3 / std::sqrt(static_cast<double>(h)));
    words_ = parameter("transformer.wte.weight", random({config_.vocabulary, h}, word_deviation));
    positions_ =
        parameter("transformer.wpe.weight", random({config_.positions, h}, word_deviation));
    for (std::int64_t i = 0; i < config_.layers; ++i) {
        const std::string path = fmt::format("transformer.h.{}.", i);
        Block block;
        block.first_norm = norm(path + "ln_1");
        block.queries = dense(path + "attn.c_attn", h, 3 * h, decoder_initial_deviation);
        block.out = dense(path + "attn.c_proj", h, h, residual_deviation);
        block.second_norm = norm(path + "ln_2");
        block.widen = dense(path + "mlp.c_fc", h, config_.feed_forward, decoder_initial_deviation);
        block.narrow = dense(path + "mlp.c_proj", config_.feed_forward, h, residual_deviation);
        blocks_.push_back(std::move(block));
    }
    last_norm_ = norm("transformer.ln_f");
}

void Decoder::make_llama(double residual_deviation) {
    const std::int64_t h = config_.hidden;
    const std::int64_t f = config_.feed_forward;
    const std::int64_t groups = config_.key_value_heads * config_.head_width();
    const double plain = decoder_initial_deviation;
    const double word_deviation = std::min(plain, 0.3 / std::sqrt(static_cast<double>(h)));
    words_ =
        parameter("model.embed_tokens.weight", random({config_.vocabulary, h}, word_deviation));
    for (std::int64_t i = 0; i < config_.layers; ++i) {
        const std::string path = fmt::format("model.layers.{}.", i);
        Block block;
        block.queries = dense(path + "self_attn.q_proj", h, h, plain);
        block.keys = dense(path + "self_attn.k_proj", h, groups, plain);
        block.values = dense(path + "self_attn.v_proj", h, groups, plain);
        block.out = dense(path + "self_attn.o_proj", h, h, residual_deviation);
        block.gate = dense(path + "mlp.gate_proj", h, f, plain);
        block.widen = dense(path + "mlp.up_proj", h, f, plain);
        block.narrow = dense(path + "mlp.down_proj", f, h, residual_deviation);
        block.first_norm = norm(path + "input_layernorm");
        block.second_norm = norm(path + "post_attention_layernorm");
        blocks_.push_back(std::move(block));
    }
    last_norm_ = norm("model.norm");
    if (!config_.tied)
        head_ = parameter("lm_head.weight", random({config_.vocabulary, h}, word_deviation));
}

bool Decoder::is_turned(const DecoderConfig& config, const std::string& name) {
    return config.family == DecoderFamily::gpt2 && name.ends_with(".weight") &&
           name.find(".c_") != std::string::npos && !is_adapter(name);
}

Tensor Decoder::parameter(const std::string& path, Tensor values) {
    return torch_bridge::register_at(*this, path, std::move(values));
}

Tensor Decoder::random(std::vector<std::int64_t> shape, double deviation) {
    return torch::empty(torch::IntArrayRef(shape)).normal_(0, deviation, generator_);
}

Decoder::Dense Decoder::dense(const std::string& path,
                              std::int64_t from,
                              std::int64_t to,
                              double deviation) {
    Dense made;
    made.weight = parameter(path + ".weight", random({to, from}, deviation));
    if (config_.family == DecoderFamily::gpt2)
        made.bias = parameter(path + ".bias", torch::zeros({to}));
    return made;
}

Decoder::Norm Decoder::norm(const std::string& path) {
    Norm made;
    made.weight = parameter(path + ".weight", torch::ones({config_.hidden}));
    if (config_.family == DecoderFamily::gpt2)
        made.bias = parameter(path + ".bias", torch::zeros({config_.hidden}));
    return made;
}

// In mixed precision what comes from a product is bf16; norms are made in fp32.
Tensor Decoder::normed(const Norm& norm, const Tensor& inputs) const {
    const Tensor x = inputs.to(norm.weight.scalar_type());
    if (norm.bias.defined())
        return torch::layer_norm(x, {x.size(-1)}, norm.weight, norm.bias, config_.norm_epsilon);
    const Tensor squares = x.square().mean(-1, true);
    return x * torch::rsqrt(squares + config_.norm_epsilon) * norm.weight;
}

// Angles position / base^(2 i / width), computed in double.
void Decoder::turn_positions(const Tensor& positions, Pass& pass) const {
    const std::int64_t half = config_.head_width() / 2;
    const Tensor rates =
        torch::pow(config_.rope_base,
                   torch::arange(half, torch::kFloat64).mul(-1.0 / static_cast<double>(half)));
    const Tensor angles =
        (positions.to(torch::kFloat64).unsqueeze(-1) * rates.to(positions.device())).unsqueeze(1);
    pass.cosines = angles.cos().to(torch::kFloat32);
    pass.sines = angles.sin().to(torch::kFloat32);
}

// The pair (i, i + width / 2) is turned by the token's angle.
Tensor Decoder::rotated(const Tensor& heads, const Pass& pass) const {
    if (config_.family == DecoderFamily::gpt2) return heads;
    const std::vector<Tensor> halves = heads.chunk(2, -1);
    const Tensor cosines = pass.cosines.to(heads.scalar_type());
    const Tensor sines = pass.sines.to(heads.scalar_type());
    return torch::cat(
        {halves[0] * cosines - halves[1] * sines, halves[1] * cosines + halves[0] * sines}, -1);
}

Tensor Decoder::embedded(const Tensor& ids, const Tensor& positions) const {
    const Tensor words = functional::embedding(ids, words_);
    return positions_.defined() ? words + functional::embedding(positions, positions_) : words;
}

Tensor Decoder::attend(std::size_t number, const Tensor& inputs, const Pass& pass) const {
    const Block& block = blocks_[number];
    const std::int64_t rows = inputs.size(0);
    const std::int64_t columns = inputs.size(1);
    const std::int64_t width = config_.head_width();
    const auto heads = [&](const Tensor& tensor, std::int64_t count) {
        return tensor.view({rows, columns, count, width}).transpose(1, 2);
    };
    Tensor queries = block.queries(inputs);
    Tensor keys;
    Tensor values;
    if (block.keys.weight.defined()) {
        keys = block.keys(inputs);
        values = block.values(inputs);
    } else {
        const std::vector<Tensor> parts = queries.split(config_.hidden, -1);
        queries = parts[0].contiguous();
        keys = parts[1].contiguous();
        values = parts[2].contiguous();
    }
    queries = rotated(heads(queries, config_.heads), pass);
    keys = rotated(heads(keys, config_.key_value_heads), pass);
    values = heads(values, config_.key_value_heads);
    const double scale = 1 / std::sqrt(static_cast<double>(width));
    Tensor context;
    if (pass.cache != nullptr) {
        const std::int64_t all = pass.cache->length + columns;
        Tensor& kept_keys = pass.cache->keys[number];
        Tensor& kept_values = pass.cache->values[number];
        kept_keys.narrow(2, pass.cache->length, columns).copy_(keys);
        kept_values.narrow(2, pass.cache->length, columns).copy_(values);
        keys = kept_keys.narrow(2, 0, all);
        values = kept_values.narrow(2, 0, all);
    }
    keys = for_all_heads(keys, config_.heads);
    values = for_all_heads(values, config_.heads);
    if (keys.size(2) == columns) {
        context = torch_bridge::attention(queries, keys, values, pass.mask, scale, {});
    } else {
        const Tensor scores = torch::matmul(queries, keys.transpose(2, 3)) * scale + pass.mask;
        context = torch::matmul(torch::softmax(scores, -1), values);
    }
    return block.out(context.transpose(1, 2).reshape({rows, columns, config_.hidden}));
}

Tensor Decoder::feed(const Block& block, const Tensor& inputs) const {
    if (!block.gate.weight.defined()) return block.narrow(torch::gelu(block.widen(inputs), "tanh"));
    return block.narrow(torch::silu(block.gate(inputs)) * block.widen(inputs));
}

Tensor Decoder::layer(std::size_t number, const Tensor& inputs, const Pass& pass) const {
    const Block& block = blocks_[number];
    const Tensor attended = inputs + attend(number, normed(block.first_norm, inputs), pass);
    return attended + feed(block, normed(block.second_norm, attended));
}

Tensor Decoder::through_layers(Tensor states, const Pass& pass) const {
    const bool recomputes = config_.recompute && torch::GradMode::is_enabled();
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
        if (recomputes)
            states = recomputed(
                states, [this, i, pass](const Tensor& inputs) { return layer(i, inputs, pass); });
        else
            states = layer(i, states, pass);
    }
    return normed(last_norm_, states);
}

Tensor Decoder::logits(const DecoderBatch& batch) {
    const std::int64_t columns = batch.ids.size(1);
    const Tensor future =
        torch::ones({columns, columns}, batch.ids.options().dtype(torch::kBool)).triu(1);
    const Tensor others = batch.segments.unsqueeze(1) != batch.segments.unsqueeze(2);
    Pass pass;
    pass.mask = (others | future).to(torch::kFloat32).mul(minus_infinity).unsqueeze(1);
    if (config_.family == DecoderFamily::llama) turn_positions(batch.positions, pass);
    Tensor first = embedded(batch.ids, batch.positions);
    // With a frozen embedding nothing before the adapters would ask layers for a way back.
    if (config_.recompute && torch::GradMode::is_enabled() && !first.requires_grad())
        first.set_requires_grad(true);
    const Tensor states = through_layers(first, pass);
    return torch_bridge::dense(states, last_weight(), {});
}

DecoderCache Decoder::empty_cache() const {
    DecoderCache cache;
    const std::vector<std::int64_t> shape = {
        1, config_.key_value_heads, config_.positions, config_.head_width()};
    for (std::size_t i = 0; i < blocks_.size(); ++i) {
        cache.keys.push_back(torch::empty(torch::IntArrayRef(shape), words_.options()));
        cache.values.push_back(torch::empty(torch::IntArrayRef(shape), words_.options()));
    }
    return cache;
}

Tensor Decoder::next_logits(const std::vector<std::int64_t>& ids, DecoderCache& cache) {
    const torch::NoGradGuard no_grad;
    const auto columns = static_cast<std::int64_t>(ids.size());
    const torch::Device device = words_.device();
    const Tensor input = matrix_of(ids, 1, columns).to(device);
    const Tensor positions =
        torch::arange(cache.length, cache.length + columns, torch::kInt64).unsqueeze(0).to(device);
    Pass pass;
    pass.cache = &cache;
    pass.mask = torch::full({columns, cache.length + columns}, minus_infinity, words_.options())
                    .triu(cache.length + 1)
                    .view({1, 1, columns, cache.length + columns});
    if (config_.family == DecoderFamily::llama) turn_positions(positions, pass);
    const Tensor states = through_layers(embedded(input, positions), pass);
    cache.length += columns;
    const Tensor last = states.narrow(1, columns - 1, 1).view({1, config_.hidden});
    return torch_bridge::dense(last, last_weight(), {}).view({config_.vocabulary});
}

DecoderBatch decoder_batch(const text::PackedBatch& batch) {
    return {.ids = matrix_of(batch.ids, batch.rows, batch.columns),
            .segments = matrix_of(batch.segments, batch.rows, batch.columns),
            .positions = matrix_of(batch.positions, batch.rows, batch.columns),
            .labels = matrix_of(batch.labels, batch.rows, batch.columns)};
}

torch_bridge::TorchBatch packed(const DecoderBatch& batch) {
    torch_bridge::TorchBatch result;
    result.inputs = torch::stack({batch.ids, batch.segments, batch.positions}, 1);
    result.targets = batch.labels;
    return result;
}

DecoderBatch unpacked(const torch_bridge::TorchBatch& batch) {
    return {.ids = batch.inputs.select(1, 0),
            .segments = batch.inputs.select(1, 1),
            .positions = batch.inputs.select(1, 2),
            .labels = batch.targets};
}

torch_bridge::TorchLoss decoder_loss(const Tensor& logits, const Tensor& labels) {
    const auto sum =
        functional::CrossEntropyFuncOptions().reduction(torch::kSum).ignore_index(text::no_label);
    const Tensor flat = labels.reshape({-1});
    // In mixed precision logits come in bf16.
    const Tensor scores = logits.reshape({-1, logits.size(-1)}).to(torch::kFloat32);
    const auto length = static_cast<double>(labels.size(1));
    torch_bridge::TorchLoss loss;
    loss.sum = functional::cross_entropy(scores, flat, sum) / length;
    loss.correct = (scores.detach().argmax(1) == flat).sum().to(torch::kFloat64) / length;
    return loss;
}

}  // namespace dedloc::tasks
