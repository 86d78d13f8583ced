// Files of a run that trains adapters alone (language_model.lora_rank): the weights under them,
// which the run file names by their hash and newcomers fetch; and adapters as the package `peft`
// reads them.
//
//   base     one safetensors file in bf16, in the user's cache
//   adapter  adapter_config.json, adapter_model.safetensors
//
// Errors: not_found: the base is nowhere here; bad_input: it is another model's; local_fault. Only
// for files that see libtorch. Thread: one at a time. Blocks.

#pragma once
#include <memory>
#include <optional>
#include <string>

#include "dedloc/tasks/language_model/decoder.h"
#include "dedloc/tasks/training_task.h"

namespace dedloc::tasks {

// The frozen weights, with the file that others get.
struct LoraBase {
    Digest name;
    std::shared_ptr<const Bytes> file;
    std::shared_ptr<const Decoder> model;
};

// The run's own from the cache; where the run file leaves it to the host, of a folder of Hugging
// Face's, and kept in the cache. None: the run trains the whole model.
Result<std::optional<LoraBase>> lora_base(const DecoderConfig& sizes,
                                          const std::string& weights_directory);

std::string adapter_config(const DecoderConfig& sizes);
Bytes adapter_safetensors(const Decoder& model);

}  // namespace dedloc::tasks
