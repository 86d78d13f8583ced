// How likely a decoder finds a text behind another: the sum of what its tokens cost.
//
// The text is cut into tokens together with what stands before it, as lm-evaluation-harness does
// (Gao et al. 2021): spaces between the two belong to the text. What is longer than the context is
// read in windows, each of which sees half a context at least before the tokens that it judges.
//
// Errors: bad_input: a text without a token. libtorch's exceptions. Only for files that see
// libtorch. Thread: one at a time.

#pragma once
#include "dedloc/tasks/language_model/decoder.h"
#include "dedloc/tasks/training_task.h"
#include "dedloc/text/language_tokenizer.h"

namespace dedloc::tasks {

Result<TextScore> score_text(Decoder& model,
                             const text::LanguageTokenizer& tokenizer,
                             const ScoredText& scored);

}  // namespace dedloc::tasks
