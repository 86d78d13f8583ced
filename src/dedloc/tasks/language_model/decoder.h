// A decoder as a libtorch module: each token predicted from those before it in its document.
//
//   words [+ positions] -> layers x { norm, attention, add; norm, feed-forward, add } -> norm ->
//   product with the word embedding (or a matrix of its own)
//
// The parameters' names are Hugging Face's (GPT2LMHeadModel, LlamaForCausalLM), so that weights go
// both ways (language_model_weights.h). GPT-2's products are stored there as [from, to], here as
// [to, from] like all others. Nothing is dropped out: a sample's gradient is a function of the
// sample alone.
//
// The loss of a sample is the sum over its tokens divided by the row's length, so that each token
// weighs the same, and gradients of samples add up however they are put into batches.
//
// With `recompute` a layer keeps only its input for the way back and is computed again there.
//
// Products go through torch_bridge::dense and attention (oneDNN on Debian's libtorch). Only for
// files that see libtorch. Thread: one at a time.

#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dedloc/tasks/language_model/language_model_config.h"
#include "dedloc/text/packed_stream.h"
#include "dedloc/torch_bridge/libtorch.h"
#include "dedloc/torch_bridge/torch_learner.h"

namespace dedloc::tasks {

// [rows, columns] int64 each, as in text/packed_stream.h.
struct DecoderBatch {
    torch::Tensor ids;
    torch::Tensor segments;
    torch::Tensor positions;
    torch::Tensor labels;
};

// Keys and values of the tokens so far, of one row: what makes the next token cheap.
struct DecoderCache {
    std::vector<torch::Tensor> keys;  // of each layer: [1, key_value_heads, positions, head width]
    std::vector<torch::Tensor> values;
    std::int64_t length = 0;
};

class Decoder : public torch::nn::Module {
  public:
    // `config` has passed check(). Matrices are normal with deviation 0.02, those that add to the
    // sum of all layers by √(2 layers) less; the word embedding at most by 0.3 / √hidden, so that
    // the first loss is ln V; biases 0, norms 1.
    Decoder(const DecoderConfig& config, std::uint64_t seed);

    const DecoderConfig& config() const { return config_; }
    torch::Tensor logits(const DecoderBatch& batch);  // [rows, columns, vocabulary]

    DecoderCache empty_cache() const;
    // Reads `ids` behind what the cache has and returns the scores [vocabulary] of what follows the
    // last of them. cache.length + ids.size() is at most config().positions.
    torch::Tensor next_logits(const std::vector<std::int64_t>& ids, DecoderCache& cache);

    // Is this parameter [from, to] in Hugging Face's files?
    static bool is_turned(const DecoderConfig& config, const std::string& name);
    // Is this parameter an adapter's (config().lora)? All others are then frozen.
    static bool is_adapter(const std::string& name);
    // The frozen parameters become `other`'s, not copied; the two have the same sizes.
    void share_frozen(const Decoder& other);
    // Puts what the adapters add into the weights beside them.
    void merge_adapters();

  private:
    struct Norm {
        torch::Tensor weight;
        torch::Tensor bias;  // undefined: RMSNorm
    };
    struct Dense {
        torch::Tensor weight;
        torch::Tensor bias;    // undefined: none
        torch::Tensor lora_a;  // undefined: no adapter; [rank, from]
        torch::Tensor lora_b;  // [to, rank]
        double lora_scale = 0;
        torch::Tensor operator()(const torch::Tensor& inputs) const;
    };
    struct Block {
        Norm first_norm;
        Norm second_norm;
        Dense queries;  // gpt2: with keys and values
        Dense keys;
        Dense values;
        Dense out;
        Dense widen;  // llama: up
        Dense gate;   // llama
        Dense narrow;
    };
    // All layers share these in one pass.
    struct Pass {
        torch::Tensor mask;     // [rows, 1, columns, columns], added
        torch::Tensor cosines;  // rotary: [rows, 1, columns, head width / 2]
        torch::Tensor sines;
        DecoderCache* cache = nullptr;
    };

    torch::Tensor parameter(const std::string& path, torch::Tensor values);
    torch::Tensor random(std::vector<std::int64_t> shape, double deviation);
    Dense dense(const std::string& path, std::int64_t from, std::int64_t to, double deviation);
    void adapt(const std::string& path, Dense& to);
    void add_adapters();
    void freeze_base();
    Norm norm(const std::string& path);
    void make_gpt2(double residual_deviation);
    void make_llama(double residual_deviation);

    torch::Tensor normed(const Norm& norm, const torch::Tensor& inputs) const;
    torch::Tensor rotated(const torch::Tensor& heads, const Pass& pass) const;
    void turn_positions(const torch::Tensor& positions, Pass& pass) const;
    torch::Tensor embedded(const torch::Tensor& ids, const torch::Tensor& positions) const;
    torch::Tensor layer(std::size_t number, const torch::Tensor& inputs, const Pass& pass) const;
    torch::Tensor attend(std::size_t number, const torch::Tensor& inputs, const Pass& pass) const;
    torch::Tensor feed(const Block& block, const torch::Tensor& inputs) const;
    torch::Tensor through_layers(torch::Tensor states, const Pass& pass) const;
    const torch::Tensor& last_weight() const { return head_.defined() ? head_ : words_; }

    DecoderConfig config_;
    torch::Generator generator_;
    torch::Tensor words_;
    torch::Tensor positions_;  // gpt2
    torch::Tensor head_;       // not tied
    std::vector<Block> blocks_;
    Norm last_norm_;
};

DecoderBatch decoder_batch(const text::PackedBatch& batch);
// The learner knows one tensor of inputs and one of targets.
torch_bridge::TorchBatch packed(const DecoderBatch& batch);
DecoderBatch unpacked(const torch_bridge::TorchBatch& batch);

// Sums over the samples, of each its mean loss of a token and the fraction that is right.
torch_bridge::TorchLoss decoder_loss(const torch::Tensor& logits, const torch::Tensor& labels);

}  // namespace dedloc::tasks
