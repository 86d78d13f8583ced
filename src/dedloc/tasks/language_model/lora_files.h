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

#include "dedloc/base/shared_bytes.h"
#include "dedloc/tasks/language_model/decoder.h"
#include "dedloc/tasks/training_task.h"

namespace dedloc::tasks {

// The frozen weights, with the file that others get.
struct LoraBase {
    Digest name;
    SharedBytes file;
    std::shared_ptr<const Decoder> model;
};

// The weights that the run file names, from the cache; where it leaves them to the host, those of
// a folder of Hugging Face's, which the cache keeps from now on. None: the run trains the whole
// model.
Result<std::optional<LoraBase>> lora_base(const DecoderConfig& sizes,
                                          const std::string& weights_directory);

std::string adapter_config(const DecoderConfig& sizes);
Bytes adapter_safetensors(const Decoder& model);

}  // namespace dedloc::tasks
