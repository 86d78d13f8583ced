// Fine-tuning: how well a pre-trained model serves another task, on labelled text.
//
// The recipe is the one published with sahajBERT: length 128, rate 1e-5 falling to 0, at most 20
// epochs of batches of 128, the parameters with the lowest evaluation loss, and an end when 3
// epochs have not lowered it by 0.01. Of a word's pieces the first alone has a label. The score is
// of the test split: entity F1 (text/entity_score.h), or the part of texts with the right class.
//
// Source: sahajbert/train_ner.py and train_ncc.py of DeDLOC's experiments (hivemind 0.9.9).
// Thread: any; pure but for what a task computes.

#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "dedloc/base/result.h"
#include "dedloc/text/labelled.h"

namespace dedloc::tasks {

enum class FineTuneKind { entities, classes };

struct FineTuneRecipe {
    std::int64_t length = 128;  // pieces, with [CLS] and [SEP]
    double rate = 1e-5;
    std::uint64_t epochs_max = 20;
    std::uint64_t batch = 128;
    std::uint64_t patience = 3;  // epochs
    double threshold = 0.01;     // of the evaluation loss
    double classifier_dropout = 0.1;
};

// Places in sentences or texts; no place is in two of them.
struct FineTuneSplit {
    std::vector<std::size_t> train;
    std::vector<std::size_t> evaluation;
    std::vector<std::size_t> test;
};

struct FineTuneData {
    FineTuneKind kind = FineTuneKind::entities;
    std::vector<std::string> labels;                // of words, or classes
    std::vector<text::LabelledSentence> sentences;  // entities
    std::vector<text::LabelledText> texts;          // classes

    std::size_t size() const {
        return kind == FineTuneKind::entities ? sentences.size() : texts.size();
    }
};

struct FineTuneInput {
    const FineTuneData& data;
    FineTuneSplit split;
    FineTuneRecipe recipe{};
    std::uint64_t seed = 0;  // of the head's weights, the order and the dropout
};

struct FineTuneScore {
    double score = 0;  // F1, or accuracy
    double precision = 0;
    double recall = 0;
    double accuracy = 0;  // of words, or texts
    double evaluation_loss = 0;
    std::uint64_t epochs = 0;
    std::uint64_t best_epoch = 0;
};

// Part `test` of everything and part `evaluation` of the rest, drawn by the seed.
FineTuneSplit split_by_chance(std::size_t count,
                              double test,
                              double evaluation,
                              std::uint64_t seed);
// A fifth of all entities' names, which are in the test split alone: whoever looks names up finds
// none. Sentences with names of both kinds are in no split.
FineTuneSplit split_by_names(const std::vector<text::LabelledSentence>& sentences,
                             std::uint64_t seed);

// The share that everybody has to beat.
double majority_share(const FineTuneData& data, const FineTuneSplit& split);
// Naive Bayes over words, smoothed by one: the accuracy on the test split.
double bag_of_words_accuracy(const FineTuneData& data, const FineTuneSplit& split);

struct MeanAndDeviation {
    double mean = 0;
    double deviation = 0;  // of a sample
};
MeanAndDeviation mean_and_deviation(const std::vector<double>& values);

}  // namespace dedloc::tasks
