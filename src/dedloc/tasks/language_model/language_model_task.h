// The task "language_model": a decoder that predicts the next token of real text, of GPT-2's or
// Llama's architecture (task.model), from nothing or from published weights (`host --weights`).
//
// One sample is a row of text.length tokens of packed documents that do not see each other
// (text/packed_stream.h). Accuracy is the fraction of tokens predicted right.
//
// A run file that leaves the tokenizer's hash open gets, in this order, the one of the folder of
// weights, `tokenizer.json` or `tokenizer.model` of the data folder, or the one trained here by
// text.tokenizer. Whoever joins fetches it from the peers unless it is in the cache.
//
// measure(): loss (nats a token), perplexity, bits_per_byte (of the text, so that models with other
// tokenizers compare), accuracy, ignorance_loss (ln V), tokens, bytes, samples.
// export_model(): model.safetensors, config.json, generation_config.json, the tokenizer's file and
// tokenizer_config.json, as Hugging Face's tools read them.
//
// Errors and threads: training_task.h; text_data.h for the data.

#pragma once
#include "dedloc/tasks/registry.h"

namespace dedloc::tasks {

Result<std::shared_ptr<const TrainingTask>> make_language_model(const run::TaskConfig& config,
                                                                const TaskOptions& options);

}  // namespace dedloc::tasks
