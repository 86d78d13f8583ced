// The task text_to_image: the transformer of "Training Transformers Together" learns image codes
// behind captions. Data: --data, a folder with captions.jsonl (images/folder.h).
//
//   measures   loss = (text_loss + 7 image_loss) / 8, held out, in nats a token; ignorance_loss
//   exported   model.safetensors, config.json, image_codes.safetensors (with the words)
//
// Errors and threads: training_task.h.

#pragma once
#include "dedloc/tasks/text_to_image/text_to_image_config.h"
#include "dedloc/tasks/training_task.h"

namespace dedloc::tasks {

Result<std::shared_ptr<const TrainingTask>> make_text_to_image(const run::TaskConfig& config,
                                                               const TaskOptions& options);

// With 8-bit moments or without.
MemoryEstimate text_to_image_memory(const TextToImageConfig& sizes, std::uint64_t micro_batch);

}  // namespace dedloc::tasks
