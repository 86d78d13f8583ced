// dedloc eval --perplexity and --choices: how likely a language model finds a text of the user's
// own, and which of several answers it prefers (docs/language-model.md).
//
// Thread: one. Blocks.

#pragma once
#include <string>
#include <vector>

#include "dedloc/base/result.h"
#include "dedloc/tasks/training_task.h"

namespace dedloc::tasks {

inline constexpr std::size_t scored_file_bytes_max = 256u << 20;
inline constexpr std::size_t questions_max = 1'000'000;
inline constexpr std::size_t choices_max = 64;  // of one question

struct Question {
    std::string prompt;
    std::vector<std::string> choices;  // two or more
    std::size_t answer = 0;            // of them
};

// A line: {"prompt": "…", "choices": ["…", …], "answer": 0}. bad_input names the line.
Result<std::vector<Question>> questions_in(std::string_view jsonl);
// Each choice behind its prompt, with the space between them that neither of them has.
std::vector<ScoredText> texts_of(const std::vector<Question>& questions);

// tokens, bytes, token_loss, perplexity, bits_per_byte.
std::vector<Measure> perplexity_measures(const TextScore& score);
// choices_accuracy: of the questions, those whose answer is the likeliest choice, and
// choices_accuracy_by_byte: … per byte; choices_chance: what guessing reaches; questions.
std::vector<Measure> choice_measures(const std::vector<Question>& questions,
                                     const std::vector<TextScore>& scores);

}  // namespace dedloc::tasks
