// The task "albert": masked words and sentence order of real text, the DeDLOC paper's experiment.
//
// One sample is a pair of text pieces, [CLS] A [SEP] B [SEP], with some words masked; its loss is
// the mean over its masked words plus that of its order (albert_model.h). Accuracy is the fraction
// of masked words predicted right.
//
// The model's vocabulary may be larger than the tokenizer's (a round number; the Bible gives 10,533
// pieces at most). A run file that leaves the tokenizer's hash open gets the one
// trained here (decided_config()). Whoever joins fetches it from the peers (missing_files()) unless
// it is in the cache; `tokenizer.model` in the data folder goes before both.
//
// measure(): masked_loss, perplexity (its exponential), masked_accuracy, order_loss,
// order_accuracy over the words and samples of held-out text, their numbers, and ignorance_loss
// (ln V + ln 2).
// export_model(): model.safetensors, config.json, model.pt, tokenizer_config.json
// (albert_weights.h), and the tokenizer as spiece.model.
//
// Text is the built-in Bible or what lies below the data folder: a run file that names anything
// else of this machine is refused (docs/security.md).
//
// Errors and threads: training_task.h; text_data.h for the data.

#pragma once
#include "dedloc/tasks/registry.h"

namespace dedloc::tasks {

// ALBERT whose feed-forward layer is a mixture of experts at other machines ([experts]); the same
// in all else, but that it cannot be measured or exported without the run.
inline constexpr const char* moe_albert_kind_name = "moe_albert";

Result<std::shared_ptr<const TrainingTask>> make_albert(const run::TaskConfig& config,
                                                        const TaskOptions& options);

// Experts by libtorch.
Result<RunExperts> albert_torch_experts(const run::TaskConfig& config, const TaskOptions& options);

}  // namespace dedloc::tasks
