#include "dedloc/tasks/albert/albert_model.h"

#include <cmath>
#include <torch/nn/functional/embedding.h>
#include <utility>

#include "dedloc/base/check.h"
#include "dedloc/base/random.h"
#include "dedloc/torch_bridge/dense.h"
#include "dedloc/torch_bridge/register_at.h"

namespace dedloc::tasks {

namespace {

using torch::Tensor;
namespace functional = torch::nn::functional;

constexpr const char* layer_path = "albert.encoder.albert_layer_groups.0.albert_layers.0.";

constexpr double rotary_base = 10'000;

// Added to attention's scores where there is padding: exp gives 0.
constexpr double minus_infinity = -3.0e38;

Tensor gelu_new(const Tensor& inputs) { return torch::gelu(inputs, "tanh"); }

Tensor int64_tensor(const std::vector<std::int64_t>& values, std::vector<std::int64_t> shape) {
    return torch::tensor(torch::ArrayRef<std::int64_t>(values), torch::kInt64)
        .view(torch::IntArrayRef(shape));
}

// [rows, heads, columns, width]: the pair (i, i + width / 2) of column p is turned by the angle
// p / base^(2 i / width), so that the product of two depends on their distance alone.
Tensor rotary(const Tensor& tensor) {
    const std::int64_t columns = tensor.size(2);
    const std::int64_t half = tensor.size(3) / 2;
    const Tensor rates = torch::pow(
        rotary_base, torch::arange(half, torch::kFloat64).mul(-1.0 / static_cast<double>(half)));
    const Tensor angles =
        torch::outer(torch::arange(columns, torch::kFloat64), rates).to(torch::kFloat32);
    const Tensor sine = angles.sin().to(tensor.device(), tensor.scalar_type());
    const Tensor cosine = angles.cos().to(tensor.device(), tensor.scalar_type());
    const Tensor left = tensor.narrow(3, 0, half);
    const Tensor right = tensor.narrow(3, half, half);
    return torch::cat({left * cosine - right * sine, right * cosine + left * sine}, 3);
}

}  // namespace

Tensor AlbertModel::Dense::operator()(const Tensor& inputs) const {
    return torch_bridge::dense(inputs, weight, bias);
}

Tensor AlbertModel::Norm::operator()(const Tensor& inputs) const {
    // In mixed precision what comes from a product is bf16; norms are made in fp32.
    return torch::layer_norm(
        inputs.to(weight.scalar_type()), {inputs.size(-1)}, weight, bias, albert_norm_epsilon);
}

// Every use takes the next stream of numbers of each sample.
class AlbertModel::Dropout {
  public:
    Dropout(Tensor seeds, bool active) : seeds_(std::move(seeds)), active_(active) {}

    // 0 or 1 / (1 - rate), shaped like `like`, whose first dimension are the samples. Undefined:
    // nothing is dropped.
    Tensor keep(const Tensor& like, double rate) {
        if (!active_ || rate <= 0 || !seeds_.defined()) return {};
        ++uses_;
        Tensor mask = torch::empty(like.sizes(), torch::kFloat32);
        float* values = mask.data_ptr<float>();
        const std::int64_t rows = like.size(0);
        const std::int64_t each = like.numel() / rows;
        const auto kept = static_cast<float>(1 / (1 - rate));
        const auto threshold = static_cast<std::uint64_t>(rate * 0x1p53);
        for (std::int64_t row = 0; row < rows; ++row) {
            const auto seed = static_cast<std::uint64_t>(seeds_[row].item<std::int64_t>());
            Random random(base::mix64(seed ^ base::mix64(uses_)));
            for (std::int64_t i = 0; i < each; ++i)
                *values++ = (random.next() >> 11) < threshold ? 0.0f : kept;
        }
        return mask.to(like.device());
    }

    Tensor operator()(const Tensor& inputs, double rate) {
        const Tensor mask = keep(inputs, rate);
        return mask.defined() ? inputs * mask : inputs;
    }

  private:
    Tensor seeds_;
    bool active_;
    std::uint64_t uses_ = 0;
};

AlbertModel::AlbertModel(const AlbertConfig& config,
                         std::uint64_t seed,
                         std::shared_ptr<torch_bridge::MixtureCalls> experts)
    : torch::nn::Module("AlbertForPreTraining"),
      config_(config),
      generator_(at::detail::createCPUGenerator(seed)) {
    torch::NoGradGuard no_grad;
    const std::int64_t e = config.embedding;
    const std::int64_t h = config.hidden;
    const std::string layer = layer_path;
    words_ = random({config.vocabulary, e});
    words_[albert_pad_id].zero_();
    words_ = parameter("albert.embeddings.word_embeddings.weight", words_);
    if (!config.xl)
        positions_ = parameter("albert.embeddings.position_embeddings.weight",
                               random({config.positions, e}));
    types_ = parameter("albert.embeddings.token_type_embeddings.weight",
                       random({albert_token_types, e}));
    embedding_norm_ = norm("albert.embeddings.LayerNorm", e);
    to_hidden_ = dense("albert.encoder.embedding_hidden_mapping_in", e, h);
    layer_norm_ = norm(layer + "full_layer_layer_norm", h);
    query_ = dense(layer + "attention.query", h, h);
    key_ = dense(layer + "attention.key", h, h);
    value_ = dense(layer + "attention.value", h, h);
    attention_out_ = dense(layer + "attention.dense", h, h);
    attention_norm_ = norm(layer + "attention.LayerNorm", h);
    if (experts) {
        mixture_ = register_module("mixture", torch_bridge::RemoteMixture(h, std::move(experts)));
        mixture_->gate->weight.copy_(random({mixture_->gate->weight.size(0), h}));
        mixture_->gate->bias.zero_();
    } else {
        widen_ = dense(layer + "ffn", h, (config.xl ? 2 : 1) * config.feed_forward);
        narrow_ = dense(layer + "ffn_output", config.feed_forward, h);
    }
    if (!config.xl) pooler_ = dense("albert.pooler", h, h);
    decoder_bias_ = parameter("predictions.bias", torch::zeros({config.vocabulary}));
    word_norm_ = norm("predictions.LayerNorm", e);
    word_dense_ = dense("predictions.dense", h, e);
    order_ = dense("sop_classifier.classifier", h, 2);
}

Tensor AlbertModel::parameter(const std::string& path, Tensor values) {
    return torch_bridge::register_at(*this, path, std::move(values));
}

Tensor AlbertModel::random(std::vector<std::int64_t> shape) {
    return torch::empty(torch::IntArrayRef(shape)).normal_(0, albert_initial_deviation, generator_);
}

AlbertModel::Dense AlbertModel::dense(const std::string& path, std::int64_t from, std::int64_t to) {
    Dense layer;
    layer.weight = parameter(path + ".weight", random({to, from}));
    layer.bias = parameter(path + ".bias", torch::zeros({to}));
    return layer;
}

AlbertModel::Norm AlbertModel::norm(const std::string& path, std::int64_t width) {
    Norm layer;
    layer.weight = parameter(path + ".weight", torch::ones({width}));
    layer.bias = parameter(path + ".bias", torch::zeros({width}));
    return layer;
}

Tensor AlbertModel::embed(const AlbertBatch& batch, Dropout& dropout) const {
    const auto with_padding = functional::EmbeddingFuncOptions().padding_idx(albert_pad_id);
    Tensor sum = functional::embedding(batch.input_ids, words_, with_padding) +
                 functional::embedding(batch.token_type_ids, types_);
    if (!config_.xl) sum = sum + positions_.narrow(0, 0, batch.input_ids.size(1));
    return dropout(embedding_norm_(sum), config_.dropout);
}

Tensor AlbertModel::attend(const Tensor& inputs, const Tensor& mask, Dropout& dropout) const {
    const std::int64_t rows = inputs.size(0);
    const std::int64_t columns = inputs.size(1);
    const std::int64_t width = config_.hidden / config_.heads;
    const auto heads = [&](const Tensor& tensor) {
        return tensor.view({rows, columns, config_.heads, width}).transpose(1, 2);
    };
    Tensor keep;
    if (config_.attention_dropout > 0)
        keep = dropout.keep(torch::empty({rows, config_.heads, columns, columns}, inputs.options()),
                            config_.attention_dropout);
    const auto turned = [&](const Tensor& tensor) { return config_.xl ? rotary(tensor) : tensor; };
    const Tensor context = torch_bridge::attention(turned(heads(query_(inputs))),
                                                   turned(heads(key_(inputs))),
                                                   heads(value_(inputs)),
                                                   mask,
                                                   1 / std::sqrt(static_cast<double>(width)),
                                                   keep);
    const Tensor joined = context.transpose(1, 2).reshape({rows, columns, config_.hidden});
    const Tensor out = dropout(attention_out_(joined), config_.dropout);
    return attention_norm_(inputs + out);
}

Tensor AlbertModel::layer(const Tensor& inputs, const Tensor& mask, Dropout& dropout) {
    const Tensor attended = attend(inputs, mask, dropout);
    if (mixture_) {
        const Tensor mixed = mixture_->forward(attended.reshape({-1, config_.hidden}));
        return layer_norm_(mixed.view(attended.sizes()) + attended);
    }
    const Tensor wide = widen_(attended);
    if (!config_.xl) return layer_norm_(narrow_(gelu_new(wide)) + attended);
    const std::vector<Tensor> halves = wide.chunk(2, -1);
    return layer_norm_(narrow_(gelu_new(halves[0]) * halves[1]) + attended);
}

AlbertStates AlbertModel::encode(const AlbertBatch& batch) {
    Dropout dropout(batch.dropout_seeds, is_training());
    return encode(batch, dropout);
}

AlbertStates AlbertModel::encode(const AlbertBatch& batch, Dropout& dropout) {
    const Tensor mask = (1 - batch.attention_mask.to(torch::kFloat32))
                            .mul(minus_infinity)
                            .unsqueeze(1)
                            .unsqueeze(1);
    Tensor states = to_hidden_(embed(batch, dropout));
    for (std::int64_t i = 0; i < config_.layers; ++i) states = layer(states, mask, dropout);
    const Tensor first = states.select(1, 0);
    return {.words = states, .pooled = config_.xl ? first : torch::tanh(pooler_(first))};
}

AlbertOutputs AlbertModel::forward(const AlbertBatch& batch) {
    Dropout dropout(batch.dropout_seeds, is_training());
    const AlbertStates states = encode(batch, dropout);
    AlbertOutputs outputs;
    const Tensor masked = torch::nonzero(batch.labels.view({-1}) >= 0).view({-1});
    outputs.word_labels = batch.labels.view({-1}).index_select(0, masked);
    outputs.word_rows = torch::div(masked, batch.labels.size(1), "floor");
    const Tensor words = states.words.reshape({-1, config_.hidden}).index_select(0, masked);
    outputs.word_logits =
        torch_bridge::dense(word_norm_(gelu_new(word_dense_(words))), words_, decoder_bias_);
    outputs.order_logits = order_(dropout(states.pooled, config_.classifier_dropout));
    return outputs;
}

AlbertBatch albert_batch(const text::MaskedBatch& batch, const std::vector<std::uint64_t>& seeds) {
    const std::vector<std::int64_t> shape = {batch.rows, batch.columns};
    AlbertBatch result;
    result.input_ids = int64_tensor(batch.input_ids, shape);
    result.token_type_ids = int64_tensor(batch.token_type_ids, shape);
    result.attention_mask = int64_tensor(batch.attention_mask, shape);
    result.labels = int64_tensor(batch.labels, shape);
    result.sentence_order = int64_tensor(batch.sentence_order, {batch.rows});
    if (!seeds.empty()) {
        DEDLOC_CHECK(seeds.size() == static_cast<std::size_t>(batch.rows), "{}", seeds.size());
        std::vector<std::int64_t> bits(seeds.begin(), seeds.end());
        result.dropout_seeds = int64_tensor(bits, {batch.rows});
    }
    return result;
}

AlbertBatch to_device(AlbertBatch batch, const torch::Device& device) {
    for (Tensor* tensor : {&batch.input_ids,
                           &batch.token_type_ids,
                           &batch.attention_mask,
                           &batch.labels,
                           &batch.sentence_order})
        *tensor = tensor->to(device);
    return batch;
}

torch_bridge::TorchLoss albert_sample_loss(const AlbertOutputs& outputs, const AlbertBatch& batch) {
    const auto each = functional::CrossEntropyFuncOptions().reduction(torch::kNone);
    const auto sum = functional::CrossEntropyFuncOptions().reduction(torch::kSum);
    // In mixed precision logits come in bf16.
    const Tensor word_logits = outputs.word_logits.to(torch::kFloat32);
    const Tensor order_logits = outputs.order_logits.to(torch::kFloat32);
    const Tensor words = functional::cross_entropy(word_logits, outputs.word_labels, each);
    // 1 / (masked words of its sample), for each masked word.
    const Tensor counts = torch::bincount(outputs.word_rows, {}, batch.labels.size(0));
    const Tensor share = counts.index_select(0, outputs.word_rows).to(torch::kFloat32).reciprocal();
    torch_bridge::TorchLoss loss;
    loss.sum =
        (words * share).sum() + functional::cross_entropy(order_logits, batch.sentence_order, sum);
    const Tensor right = word_logits.detach().argmax(1) == outputs.word_labels;
    loss.correct = (right.to(torch::kFloat32) * share).sum();
    return loss;
}

Tensor albert_batch_loss(const AlbertOutputs& outputs, const AlbertBatch& batch) {
    return functional::cross_entropy(outputs.word_logits, outputs.word_labels) +
           functional::cross_entropy(outputs.order_logits, batch.sentence_order);
}

}  // namespace dedloc::tasks
