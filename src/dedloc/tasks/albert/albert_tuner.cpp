#include "dedloc/tasks/albert/albert_tuner.h"

#include <algorithm>
#include <limits>
#include <torch/nn/utils/clip_grad.h>

#include "dedloc/base/random.h"
#include "dedloc/text/entity_score.h"
#include "dedloc/torch_bridge/dense.h"

namespace dedloc::tasks {
namespace {

namespace tune = torch::nn::functional;

constexpr double adam_epsilon = 1e-8;
constexpr double gradient_length_max = 1;

struct TuneExample {
    std::vector<std::int64_t> ids;
    std::vector<std::int64_t> labels;  // of pieces; of a text the first is its class
};

// [CLS] pieces [SEP]; of a word that no longer fits nothing is there.
TuneExample example_of(const text::LabelledSentence& sentence,
                       const FineTuneData& data,
                       const text::Tokenizer& tokenizer,
                       std::int64_t length) {
    TuneExample example{{tokenizer.special().cls}, {no_label}};
    for (std::size_t word = 0; word < sentence.words.size(); ++word) {
        const auto label = std::ranges::find(data.labels, sentence.labels[word]);
        bool is_first = true;
        for (const std::uint32_t id : tokenizer.encode(sentence.words[word])) {
            if (static_cast<std::int64_t>(example.ids.size()) + 1 >= length) break;
            example.ids.push_back(id);
            example.labels.push_back(is_first ? label - data.labels.begin() : no_label);
            is_first = false;
        }
    }
    example.ids.push_back(tokenizer.special().sep);
    example.labels.push_back(no_label);
    return example;
}

TuneExample example_of(const text::LabelledText& text,
                       const text::Tokenizer& tokenizer,
                       std::int64_t length) {
    TuneExample example{{tokenizer.special().cls}, {static_cast<std::int64_t>(text.label)}};
    for (const std::uint32_t id : tokenizer.encode(text.text)) {
        if (static_cast<std::int64_t>(example.ids.size()) + 1 >= length) break;
        example.ids.push_back(id);
    }
    example.ids.push_back(tokenizer.special().sep);
    return example;
}

class FineTuning {
  public:
    FineTuning(std::shared_ptr<AlbertModel> model,
               const text::Tokenizer& tokenizer,
               const FineTuneInput& input)
        : input_(input),
          tuner_(std::move(model),
                 input.data.kind,
                 input.data.labels.size(),
                 input.seed,
                 input.recipe.classifier_dropout) {
        const std::int64_t length = input.recipe.length;
        for (const auto& sentence : input.data.sentences)
            examples_.push_back(example_of(sentence, input.data, tokenizer, length));
        for (const auto& text : input.data.texts)
            examples_.push_back(example_of(text, tokenizer, length));
    }

    FineTuneScore run();

  private:
    bool tells_words() const { return input_.data.kind == FineTuneKind::entities; }
    TuneBatch batch(std::span<const std::size_t> places) const;
    void train_epoch(std::uint64_t epoch, torch::optim::AdamW& optimizer);
    double evaluation_loss();
    void score(FineTuneScore& result);
    template <typename Use>
    void each_batch(const std::vector<std::size_t>& places, Use use) const {
        const std::size_t size = input_.recipe.batch;
        for (std::size_t begin = 0; begin < places.size(); begin += size)
            use(std::span(places).subspan(begin, std::min(size, places.size() - begin)));
    }

    const FineTuneInput& input_;
    AlbertTuner tuner_;
    std::vector<TuneExample> examples_;
    std::uint64_t steps_ = 0;
};

TuneBatch FineTuning::batch(std::span<const std::size_t> places) const {
    std::size_t columns = 0;
    for (const std::size_t place : places) columns = std::max(columns, examples_[place].ids.size());
    const auto rows = static_cast<std::int64_t>(places.size());
    const auto width = static_cast<std::int64_t>(columns);
    TuneBatch batch;
    batch.input_ids = torch::full({rows, width}, albert_pad_id, torch::kInt64);
    batch.attention_mask = torch::zeros({rows, width}, torch::kInt64);
    batch.labels = tells_words() ? torch::full({rows, width}, no_label, torch::kInt64)
                                 : torch::zeros({rows}, torch::kInt64);
    for (std::int64_t row = 0; row < rows; ++row) {
        const TuneExample& example = examples_[places[static_cast<std::size_t>(row)]];
        const auto count = static_cast<std::int64_t>(example.ids.size());
        batch.input_ids[row].narrow(0, 0, count).copy_(torch::tensor(example.ids));
        batch.attention_mask[row].narrow(0, 0, count).fill_(1);
        if (tells_words())
            batch.labels[row].narrow(0, 0, count).copy_(torch::tensor(example.labels));
        else
            batch.labels[row].fill_(example.labels.front());
    }
    return batch;
}

void FineTuning::train_epoch(std::uint64_t epoch, torch::optim::AdamW& optimizer) {
    std::vector<std::size_t> order = input_.split.train;
    Random random(base::mix64(input_.seed) ^ epoch);
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[random.below(i)]);
    const std::size_t batches = (order.size() + input_.recipe.batch - 1) / input_.recipe.batch;
    const auto steps_all = static_cast<double>(batches * input_.recipe.epochs_max);
    tuner_.train(true);
    each_batch(order, [&](std::span<const std::size_t> places) {
        const double left = 1 - static_cast<double>(steps_++) / steps_all;
        for (auto& group : optimizer.param_groups())
            static_cast<torch::optim::AdamWOptions&>(group.options()).lr(input_.recipe.rate * left);
        optimizer.zero_grad();
        const TuneBatch here = batch(places);
        AlbertTuner::loss(tuner_.logits(here), here.labels).backward();
        torch::nn::utils::clip_grad_norm_(tuner_.parameters(), gradient_length_max);
        optimizer.step();
    });
    tuner_.train(false);
}

// As Hugging Face's Trainer means it: each batch's mean counts for as many as its rows.
double FineTuning::evaluation_loss() {
    torch::NoGradGuard no_grad;
    double sum = 0;
    each_batch(input_.split.evaluation, [&](std::span<const std::size_t> places) {
        const TuneBatch here = batch(places);
        sum += AlbertTuner::loss(tuner_.logits(here), here.labels).item<double>() *
               static_cast<double>(places.size());
    });
    return sum / static_cast<double>(input_.split.evaluation.size());
}

void FineTuning::score(FineTuneScore& result) {
    torch::NoGradGuard no_grad;
    text::EntityScore entities;
    double right = 0;
    each_batch(input_.split.test, [&](std::span<const std::size_t> places) {
        const TuneBatch here = batch(places);
        const torch::Tensor guesses = tuner_.logits(here).argmax(-1).contiguous();
        if (!tells_words()) {
            right += (guesses == here.labels).sum().item<double>();
            return;
        }
        const auto guessed = guesses.accessor<std::int64_t, 2>();
        const auto labels = here.labels.accessor<std::int64_t, 2>();
        for (std::int64_t row = 0; row < guesses.size(0); ++row) {
            std::vector<std::string> truth;
            std::vector<std::string> predicted;
            for (std::int64_t column = 0; column < guesses.size(1); ++column) {
                if (labels[row][column] == no_label) continue;
                const auto name = [this](std::int64_t label) {
                    return input_.data.labels[static_cast<std::size_t>(label)];
                };
                truth.push_back(name(labels[row][column]));
                predicted.push_back(name(guessed[row][column]));
            }
            entities.add(truth, predicted);
        }
    });
    if (tells_words()) {
        result.precision = entities.total().precision();
        result.recall = entities.total().recall();
        result.accuracy = entities.accuracy();
        result.score = entities.total().f1();
    } else {
        result.accuracy = result.score = right / static_cast<double>(input_.split.test.size());
    }
}

FineTuneScore FineTuning::run() {
    torch::manual_seed(input_.seed);  // dropout
    torch::optim::AdamW optimizer(
        tuner_.parameters(),
        torch::optim::AdamWOptions(input_.recipe.rate).eps(adam_epsilon).weight_decay(0));
    FineTuneScore result;
    double best = std::numeric_limits<double>::infinity();
    double improved = best;  // by the threshold: what patience counts from
    std::uint64_t in_vain = 0;
    std::vector<torch::Tensor> kept;
    for (std::uint64_t epoch = 1; epoch <= input_.recipe.epochs_max; ++epoch) {
        train_epoch(epoch, optimizer);
        result.epochs = epoch;
        const double loss = evaluation_loss();
        in_vain = improved - loss > input_.recipe.threshold ? 0 : in_vain + 1;
        if (loss < best) {
            best = loss;
            result.best_epoch = epoch;
            kept.clear();
            for (const torch::Tensor& tensor : tuner_.parameters())
                kept.push_back(tensor.detach().clone());
        }
        improved = best;
        if (in_vain >= input_.recipe.patience) break;
    }
    result.evaluation_loss = best;
    torch::NoGradGuard no_grad;
    const std::vector<torch::Tensor> parameters = tuner_.parameters();
    for (std::size_t i = 0; i < kept.size(); ++i) parameters[i].copy_(kept[i]);
    score(result);
    return result;
}

}  // namespace

AlbertTuner::AlbertTuner(std::shared_ptr<AlbertModel> model,
                         FineTuneKind kind,
                         std::size_t labels_count,
                         std::uint64_t seed,
                         double dropout)
    : model_(std::move(model)), kind_(kind), dropout_(dropout) {
    const auto count = static_cast<std::int64_t>(labels_count);
    auto generator = at::detail::createCPUGenerator(seed);
    weight_ = torch::empty({count, model_->config().hidden})
                  .normal_(0, albert_initial_deviation, generator)
                  .requires_grad_();
    bias_ = torch::zeros({count}).requires_grad_();
    train(false);
}

torch::Tensor AlbertTuner::logits(const TuneBatch& batch) {
    AlbertBatch inputs;
    inputs.input_ids = batch.input_ids;
    inputs.token_type_ids = torch::zeros_like(batch.input_ids);
    inputs.attention_mask = batch.attention_mask;
    const AlbertStates states = model_->encode(inputs);
    const torch::Tensor& read = kind_ == FineTuneKind::entities ? states.words : states.pooled;
    return torch_bridge::dense(torch::dropout(read, dropout_, trains_), weight_, bias_);
}

torch::Tensor AlbertTuner::loss(const torch::Tensor& logits, const torch::Tensor& labels) {
    return tune::cross_entropy(logits.reshape({-1, logits.size(-1)}),
                               labels.reshape({-1}),
                               tune::CrossEntropyFuncOptions().ignore_index(no_label));
}

void AlbertTuner::train(bool on) {
    trains_ = on;
    model_->train(on);
}

std::vector<torch::Tensor> AlbertTuner::parameters() const {
    std::vector<torch::Tensor> all = model_->parameters();
    all.push_back(weight_);
    all.push_back(bias_);
    return all;
}

Result<FineTuneScore> fine_tune_albert(std::shared_ptr<AlbertModel> model,
                                       const text::Tokenizer& tokenizer,
                                       const FineTuneInput& input) {
    const FineTuneSplit& split = input.split;
    if (split.train.empty() || split.evaluation.empty() || split.test.empty())
        return make_error(ErrorKind::bad_input,
                          "{} examples are too few to train, evaluate and test with",
                          input.data.size());
    if (input.recipe.length > model->config().positions)
        return make_error(ErrorKind::bad_input,
                          "the model knows {} positions, and {} are asked for: --length",
                          model->config().positions,
                          input.recipe.length);
    try {
        return FineTuning(std::move(model), tokenizer, input).run();
    } catch (const std::exception& failure) {
        return make_error(
            ErrorKind::cannot_compute, "fine-tuning: libtorch says: {}", failure.what());
    }
}

}  // namespace dedloc::tasks
