// Fine-tuning against Hugging Face's heads and seqeval: tests/oracles/finetune/make_golden.py wrote
// the numbers.

#include "dedloc/tasks/albert/albert_tuner.h"

#include <cmath>
#include <fstream>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "dedloc/text/cache.h"
#include "dedloc/text/entity_score.h"

namespace dedloc::tasks {
namespace {

constexpr std::int64_t tuned_rows = 3;
constexpr std::int64_t tuned_columns = 12;
constexpr std::int64_t tuned_labels = 5;

nlohmann::json finetune_golden() {
    std::ifstream file(DEDLOC_TEST_DATA "/oracles/finetune/golden.json");
    return nlohmann::json::parse(file);
}

// weight() and noise() of make_golden.py, of the place and the letters of the name.
using Filling = double (*)(std::int64_t place, double phase);
double wave(std::int64_t place, double phase) {
    return 0.2 * std::sin(0.37 * static_cast<double>(place) + phase);
}
double noise(std::int64_t place, double phase) {
    const double hash = std::sin(12.9898 * static_cast<double>(place) + phase) * 437.5;
    return hash - std::floor(hash) - 0.5;
}

void fill(const std::string& name, torch::Tensor tensor, Filling filling) {
    double phase = 0;
    for (const char letter : name) phase += static_cast<double>(letter);
    phase = std::fmod(phase, 97);
    std::string lower = name;
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
    const double middle = lower.find("norm.weight") != std::string::npos ? 1.0 : 0.0;
    torch::NoGradGuard no_grad;
    float* values = tensor.data_ptr<float>();
    for (std::int64_t i = 0; i < tensor.numel(); ++i)
        values[i] = static_cast<float>(middle + filling(i, phase));
}

std::shared_ptr<AlbertModel> made_up_model(Filling filling, std::int64_t positions) {
    AlbertConfig config;
    config.vocabulary = 60;
    config.embedding = 8;
    config.hidden = 16;
    config.layers = 3;
    config.heads = 4;
    config.feed_forward = 32;
    config.positions = positions;
    auto model = std::make_shared<AlbertModel>(config, 1);
    for (const auto& item : model->named_parameters()) fill(item.key(), item.value(), filling);
    model->eval();
    return model;
}

TuneBatch golden_batch(FineTuneKind kind) {
    TuneBatch batch;
    batch.input_ids = torch::zeros({tuned_rows, tuned_columns}, torch::kInt64);
    batch.attention_mask = torch::zeros({tuned_rows, tuned_columns}, torch::kInt64);
    batch.labels = kind == FineTuneKind::entities
                       ? torch::full({tuned_rows, tuned_columns}, no_label, torch::kInt64)
                       : torch::zeros({tuned_rows}, torch::kInt64);
    for (std::int64_t r = 0; r < tuned_rows; ++r) {
        if (kind == FineTuneKind::classes) batch.labels[r] = r % tuned_labels;
        for (std::int64_t c = 0; c < tuned_columns; ++c) {
            batch.input_ids[r][c] = 5 + (7 * r + 3 * c) % 50;
            const bool is_there = c < tuned_columns - 2 * r;
            batch.attention_mask[r][c] = is_there ? 1 : 0;
            if (kind == FineTuneKind::entities && is_there && c % 3 != 2)
                batch.labels[r][c] = (r + c) % tuned_labels;
        }
    }
    return batch;
}

void expect_golden(FineTuneKind kind, const char* key) {
    torch::NoGradGuard no_grad;
    AlbertTuner tuner(made_up_model(wave, 16), kind, tuned_labels, 1, 0.1);
    fill("classifier.weight", tuner.weight(), wave);
    fill("classifier.bias", tuner.bias(), wave);
    const TuneBatch batch = golden_batch(kind);
    const torch::Tensor logits = tuner.logits(batch);
    const nlohmann::json golden = finetune_golden().at(key);
    EXPECT_NEAR(AlbertTuner::loss(logits, batch.labels).item<double>(),
                golden.at("loss").get<double>(),
                1e-5);
    const torch::Tensor guesses = logits.argmax(-1).flatten();
    const auto theirs = golden.at("guesses").get<std::vector<std::int64_t>>();
    ASSERT_EQ(guesses.numel(), static_cast<std::int64_t>(theirs.size()));
    for (std::int64_t i = 0; i < guesses.numel(); ++i)
        EXPECT_EQ(guesses[i].item<std::int64_t>(), theirs[static_cast<std::size_t>(i)]) << i;
    const auto scores = golden.at("logits").get<std::vector<double>>();
    for (std::size_t i = 0; i < scores.size(); ++i)
        EXPECT_NEAR(logits.flatten()[static_cast<std::int64_t>(i)].item<double>(), scores[i], 1e-5);
}

TEST(AlbertTuner, loss_and_guesses_are_those_of_albert_for_token_classification) {
    expect_golden(FineTuneKind::entities, "entities");
}

TEST(AlbertTuner, loss_and_guesses_are_those_of_albert_for_sequence_classification) {
    expect_golden(FineTuneKind::classes, "classes");
}

// The 500 sentences of hironsancorpus. Its people left an "I-" without a "B-" in places, which
// seqeval takes and parse_entities() says; here the labels count as they are.
class HandLabelledSentences : public testing::Test {
  protected:
    void SetUp() override {
        const auto cache = text::default_cache_directory();
        std::ifstream file(cache ? *cache + "/test-data/hironsan.txt" : std::string());
        if (!file) GTEST_SKIP() << "wants pip's hironsancorpus, which tools/test_data.sh fetches";
        sentences_.emplace_back();
        for (std::string line; std::getline(file, line);) {
            std::istringstream fields(line);
            std::string word;
            if (fields >> word) {
                sentences_.back().words.push_back(word);
                while (fields >> word) continue;
                sentences_.back().labels.push_back(word);
            } else if (!sentences_.back().words.empty()) {
                sentences_.emplace_back();
            }
        }
        if (sentences_.back().words.empty()) sentences_.pop_back();
        std::set<std::string> all;
        for (const auto& sentence : sentences_)
            all.insert(sentence.labels.begin(), sentence.labels.end());
        names_.assign(all.begin(), all.end());
    }
    std::int64_t number_of(const std::string& label) const {
        return std::ranges::find(names_, label) - names_.begin();
    }
    // The scores are those of seqeval, to 1e-9.
    static void expect_scores(const text::EntityScore& score, const nlohmann::json& golden) {
        EXPECT_NEAR(score.total().f1(), golden.at("f1").get<double>(), 1e-9);
        EXPECT_NEAR(score.total().precision(), golden.at("precision").get<double>(), 1e-9);
        EXPECT_NEAR(score.total().recall(), golden.at("recall").get<double>(), 1e-9);
        EXPECT_NEAR(score.accuracy(), golden.at("accuracy").get<double>(), 1e-9);
    }

    std::vector<text::LabelledSentence> sentences_;
    std::vector<std::string> names_;  // of labels
};

TEST_F(HandLabelledSentences, are_predicted_as_hugging_face_does_and_scored_as_seqeval_does) {
    torch::NoGradGuard no_grad;
    AlbertTuner tuner(
        made_up_model(noise, 128), FineTuneKind::entities, names_.size(), 1, /*dropout=*/0.1);
    fill("classifier.weight", tuner.weight(), noise);
    fill("classifier.bias", tuner.bias(), noise);
    text::EntityScore score;
    std::string guesses;
    double loss = 0;
    for (const auto& sentence : sentences_) {
        const auto count = static_cast<std::int64_t>(sentence.words.size());
        TuneBatch batch;
        batch.input_ids = torch::zeros({1, count}, torch::kInt64);
        batch.attention_mask = torch::ones({1, count}, torch::kInt64);
        batch.labels = torch::zeros({1, count}, torch::kInt64);
        for (std::int64_t i = 0; i < count; ++i) {
            std::int64_t letters = 0;
            for (const char letter : sentence.words[static_cast<std::size_t>(i)])
                letters += static_cast<unsigned char>(letter);
            batch.input_ids[0][i] = 5 + letters % 55;
            batch.labels[0][i] = number_of(sentence.labels[static_cast<std::size_t>(i)]);
        }
        const torch::Tensor logits = tuner.logits(batch);
        loss += AlbertTuner::loss(logits, batch.labels).item<double>();
        const torch::Tensor best = logits[0].argmax(-1);
        std::vector<std::string> said;
        for (std::int64_t i = 0; i < count; ++i) {
            const auto guess = best[i].item<std::int64_t>();
            guesses.push_back(static_cast<char>('a' + guess));
            said.push_back(names_[static_cast<std::size_t>(guess)]);
        }
        score.add(sentence.labels, said);
    }
    const nlohmann::json golden = finetune_golden().at("sentences");
    EXPECT_EQ(guesses, golden.at("guesses").get<std::string>());
    EXPECT_NEAR(
        loss / static_cast<double>(sentences_.size()), golden.at("loss").get<double>(), 1e-5);
    expect_scores(score, golden);
}

TEST_F(HandLabelledSentences, with_wrong_predictions_are_scored_as_seqeval_does) {
    text::EntityScore score;
    std::size_t place = 0;
    for (const auto& sentence : sentences_) {
        std::vector<std::string> guesses;
        for (const std::string& label : sentence.labels) {
            guesses.push_back(place % 7 == 3 ? names_[place * 31 % names_.size()] : label);
            ++place;
        }
        score.add(sentence.labels, guesses);
    }
    const nlohmann::json golden = finetune_golden().at("seqeval");
    EXPECT_EQ(sentences_.size(), golden.at("sentences").get<std::size_t>());
    EXPECT_EQ(place, golden.at("words").get<std::size_t>());
    expect_scores(score, golden);
}

}  // namespace
}  // namespace dedloc::tasks
