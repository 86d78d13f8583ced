// AlbertTuner: a pre-trained ALBERT with a new head, trained on labelled text (fine_tune.h).
//
// The head is Hugging Face's: dropout and one dense layer, over each word's state
// (AlbertForTokenClassification) or over the pooled state of [CLS]
// (AlbertForSequenceClassification); the loss is the mean over what has a label. AdamW without
// decay, gradients clipped to length 1, the rate falls linearly: the defaults of its Trainer.
// tests/oracles/finetune compares losses and predictions.
//
// Only for files that see libtorch. Thread: one at a time. Errors: bad_input (splits without
// examples); cannot_compute.

#pragma once
#include <memory>

#include "dedloc/tasks/albert/albert_model.h"
#include "dedloc/tasks/fine_tune.h"
#include "dedloc/text/tokenizer.h"

namespace dedloc::tasks {

inline constexpr std::int64_t no_label = -100;

// A row of `labels` has one for each piece, or one for the whole row where classes are told.
struct TuneBatch {
    torch::Tensor input_ids;       // [rows, columns] int64
    torch::Tensor attention_mask;  // [rows, columns]
    torch::Tensor labels;          // [rows, columns] or [rows]
};

class AlbertTuner {
  public:
    // `model` is changed by training.
    AlbertTuner(std::shared_ptr<AlbertModel> model,
                FineTuneKind kind,
                std::size_t labels_count,
                std::uint64_t seed,
                double dropout);

    torch::Tensor logits(const TuneBatch& batch);
    static torch::Tensor loss(const torch::Tensor& logits, const torch::Tensor& labels);
    void train(bool on);
    std::vector<torch::Tensor> parameters() const;
    // The head's, for comparison.
    torch::Tensor& weight() { return weight_; }
    torch::Tensor& bias() { return bias_; }

  private:
    std::shared_ptr<AlbertModel> model_;
    FineTuneKind kind_;
    double dropout_;
    bool trains_ = false;
    torch::Tensor weight_;
    torch::Tensor bias_;
};

Result<FineTuneScore> fine_tune_albert(std::shared_ptr<AlbertModel> model,
                                       const text::Tokenizer& tokenizer,
                                       const FineTuneInput& input);

}  // namespace dedloc::tasks
