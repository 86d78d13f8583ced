// Text behind a prompt: the prompt is read once, then token by token with its keys and values kept.
//
// The same model, prompt, options and seed give the same text on the same kind of processor.
//
// Errors: bad_input: a prompt that is longer than the context, or has none of the tokenizer's
// tokens. libtorch's exceptions. Only for files that see libtorch. Thread: one at a time.

#pragma once
#include "dedloc/tasks/language_model/decoder.h"
#include "dedloc/tasks/training_task.h"
#include "dedloc/text/language_tokenizer.h"

namespace dedloc::tasks {

// Returns the token that begins a document, and the tokens of the prompt after it. bad_input: they
// leave no place of `positions` for another token. Thread: any.
Result<std::vector<std::int64_t>> ids_of_prompt(const text::LanguageTokenizer& tokenizer,
                                                std::int64_t positions,
                                                const std::string& prompt);

Result<Writing> write_text(Decoder& model,
                           const text::LanguageTokenizer& tokenizer,
                           const WriteRequest& request);

}  // namespace dedloc::tasks
