// ALBERT for pre-training as a libtorch module: masked words and sentence order.
//
//   word + type + position -> norm -> dense to hidden -> layers x { attention, add, norm;
//   dense, GELU, dense, add, norm }, one set of parameters -> heads
//
// The parameters' names are Hugging Face's (AlbertForPreTraining), so that weights go both ways
// (albert_weights.h). GELU is the tanh form ("gelu_new"), norms come after the sums, the decoder of
// masked words is the word embedding itself, the row of the padding piece gets no gradient from
// the look-up; all as in Hugging Face's, with which tests/albert compares losses and gradients.
//
// The loss of one sample is the mean cross entropy over its masked words plus the cross entropy of
// its sentence order. It does not depend on the other samples of the batch, as Hugging Face's mean
// over all masked words of a batch does: then gradients of samples add up however they are put
// into batches, and anyone can recompute anyone's. albert_batch_loss is theirs, for comparison.
//
// Dropout draws from numbers that belong to the sample (AlbertBatch::dropout_seeds) and not from
// libtorch's generator: the same sample is thinned out the same way on every machine. (Attention's
// dropout also depends on the length the batch is padded to.)
//
// Words that are not masked are left out before the decoder, which is most of the work of a large
// vocabulary. Only for files that see libtorch. Thread: one at a time.

#pragma once
#include <cstdint>
#include <vector>

#include "dedloc/tasks/albert/albert_config.h"
#include "dedloc/text/masked_batch.h"
#include "dedloc/torch_bridge/libtorch.h"
#include "dedloc/torch_bridge/remote_mixture.h"
#include "dedloc/torch_bridge/torch_learner.h"

namespace dedloc::tasks {

struct AlbertBatch {
    torch::Tensor input_ids;  // [rows, columns] int64, as the next three
    torch::Tensor token_type_ids;
    torch::Tensor attention_mask;
    torch::Tensor labels;
    torch::Tensor sentence_order;  // [rows]
    torch::Tensor dropout_seeds;   // [rows] int64 on the CPU; undefined: without dropout
};

struct AlbertOutputs {
    torch::Tensor word_logits;   // [masked, vocabulary]
    torch::Tensor word_labels;   // [masked]
    torch::Tensor word_rows;     // [masked]: the sample it belongs to
    torch::Tensor order_logits;  // [rows, 2]
};

// Heads read these.
struct AlbertStates {
    torch::Tensor words;   // [rows, columns, hidden]
    torch::Tensor pooled;  // [rows, hidden]: of the first piece
};

class AlbertModel : public torch::nn::Module {
  public:
    // `config` has passed check(); parameters are N(0, 0.02) from the seed, biases 0, norms 1. With
    // `experts` a mixture of remote experts stands in place of the feed-forward layer, the same
    // grid in every layer.
    AlbertModel(const AlbertConfig& config,
                std::uint64_t seed,
                std::shared_ptr<torch_bridge::MixtureCalls> experts = {});

    const AlbertConfig& config() const { return config_; }
    AlbertOutputs forward(const AlbertBatch& batch);
    // Without the heads of pre-training; of the batch the ids, types and mask are read.
    AlbertStates encode(const AlbertBatch& batch);

  private:
    struct Dense {
        torch::Tensor weight;
        torch::Tensor bias;
        torch::Tensor operator()(const torch::Tensor& inputs) const;
    };
    struct Norm {
        torch::Tensor weight;
        torch::Tensor bias;
        torch::Tensor operator()(const torch::Tensor& inputs) const;
    };
    class Dropout;

    torch::Tensor parameter(const std::string& path, torch::Tensor values);
    torch::Tensor random(std::vector<std::int64_t> shape);
    Dense dense(const std::string& path, std::int64_t from, std::int64_t to);
    Norm norm(const std::string& path, std::int64_t width);

    AlbertStates encode(const AlbertBatch& batch, Dropout& dropout);
    torch::Tensor embed(const AlbertBatch& batch, Dropout& dropout) const;
    torch::Tensor layer(const torch::Tensor& inputs, const torch::Tensor& mask, Dropout& dropout);
    torch::Tensor attend(const torch::Tensor& inputs,
                         const torch::Tensor& mask,
                         Dropout& dropout) const;

    AlbertConfig config_;
    torch::Generator generator_;
    torch::Tensor words_;
    torch::Tensor positions_;
    torch::Tensor types_;
    Norm embedding_norm_;
    Dense to_hidden_;
    Norm layer_norm_;
    Dense query_;
    Dense key_;
    Dense value_;
    Dense attention_out_;
    Norm attention_norm_;
    Dense widen_;
    Dense narrow_;
    torch_bridge::RemoteMixture mixture_{nullptr};  // in place of those two
    Dense pooler_;
    Dense order_;
    torch::Tensor decoder_bias_;
    Norm word_norm_;
    Dense word_dense_;
};

// seeds[i] is sample i's, or empty: without dropout.
AlbertBatch albert_batch(const text::MaskedBatch& batch, const std::vector<std::uint64_t>& seeds);
AlbertBatch to_device(AlbertBatch batch, const torch::Device& device);

// Sum over the samples, and of each the fraction of masked words that are predicted right.
torch_bridge::TorchLoss albert_sample_loss(const AlbertOutputs& outputs, const AlbertBatch& batch);
// Hugging Face's: mean over all masked words plus mean over all samples.
torch::Tensor albert_batch_loss(const AlbertOutputs& outputs, const AlbertBatch& batch);

}  // namespace dedloc::tasks
