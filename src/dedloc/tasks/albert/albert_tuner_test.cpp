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

// weight() of make_golden.py.
void fill_with_wave(const std::string& name, torch::Tensor tensor) {
    double phase = 0;
    for (const char letter : name) phase += static_cast<double>(letter);
    phase = std::fmod(phase, 97);
    std::string lower = name;
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return std::tolower(c); });
    const double middle = lower.find("norm.weight") != std::string::npos ? 1.0 : 0.0;
    torch::NoGradGuard no_grad;
    float* values = tensor.data_ptr<float>();
    for (std::int64_t i = 0; i < tensor.numel(); ++i)
        values[i] =
            static_cast<float>(middle + 0.2 * std::sin(0.37 * static_cast<double>(i) + phase));
}

std::shared_ptr<AlbertModel> wavy_model() {
    AlbertConfig config;
    config.vocabulary = 60;
    config.embedding = 8;
    config.hidden = 16;
    config.layers = 3;
    config.heads = 4;
    config.feed_forward = 32;
    config.positions = 16;
    auto model = std::make_shared<AlbertModel>(config, 1);
    for (const auto& item : model->named_parameters()) fill_with_wave(item.key(), item.value());
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
    AlbertTuner tuner(wavy_model(), kind, tuned_labels, 1, 0.1);
    fill_with_wave("classifier.weight", tuner.weight());
    fill_with_wave("classifier.bias", tuner.bias());
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

TEST(AlbertTuner, entity_scores_are_those_of_seqeval_on_hand_labelled_sentences) {
    const auto cache = text::default_cache_directory();
    std::ifstream file(cache ? *cache + "/test-data/hironsan.txt" : std::string());
    if (!file) GTEST_SKIP() << "no sentences here: tools/test_data.sh fetches them";
    // Its people left an "I-" without a "B-" in places, which seqeval takes and parse_entities()
    // says; here the labels count as they are.
    std::vector<std::vector<std::string>> sentences(1);
    for (std::string line; std::getline(file, line);) {
        std::istringstream words(line);
        std::string label;
        for (std::string word; words >> word;) label = word;
        if (!label.empty())
            sentences.back().push_back(label);
        else if (!sentences.back().empty())
            sentences.emplace_back();
    }
    if (sentences.back().empty()) sentences.pop_back();
    std::set<std::string> all;
    for (const auto& labels : sentences) all.insert(labels.begin(), labels.end());
    const std::vector<std::string> names(all.begin(), all.end());
    text::EntityScore score;
    std::size_t place = 0;
    for (const std::vector<std::string>& labels : sentences) {
        std::vector<std::string> guesses;
        for (const std::string& label : labels) {
            guesses.push_back(place % 7 == 3 ? names[place * 31 % names.size()] : label);
            ++place;
        }
        score.add(labels, guesses);
    }
    const nlohmann::json golden = finetune_golden().at("seqeval");
    EXPECT_EQ(sentences.size(), golden.at("sentences").get<std::size_t>());
    EXPECT_EQ(place, golden.at("words").get<std::size_t>());
    EXPECT_NEAR(score.total().f1(), golden.at("f1").get<double>(), 1e-9);
    EXPECT_NEAR(score.total().precision(), golden.at("precision").get<double>(), 1e-9);
    EXPECT_NEAR(score.total().recall(), golden.at("recall").get<double>(), 1e-9);
    EXPECT_NEAR(score.accuracy(), golden.at("accuracy").get<double>(), 1e-9);
}

}  // namespace
}  // namespace dedloc::tasks
