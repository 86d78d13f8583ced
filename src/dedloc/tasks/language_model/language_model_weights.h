// A decoder's weights in Hugging Face's files: a folder with
//
//   config.json          decoder_json.h
//   model.safetensors    or model.safetensors.index.json and the files that it names
//   tokenizer.json       text/tokenizer_json.h
//
// Both with the prefix "transformer." of GPT-2's names and without it, as the published file has
// them. Weights in fp16 and bf16 become fp32.
//
// Errors: not_found: a file that is not there; bad_input: which weight is missing, left over or of
// another shape; a file that is cut short. Only for files that see libtorch. Thread: one at a time.

#pragma once
#include <string>
#include <vector>

#include "dedloc/tasks/language_model/decoder.h"
#include "dedloc/tasks/safetensors.h"

namespace dedloc::tasks {

// bad_input names the first field in which the folder's model is another one.
Ok check_same_model(const DecoderConfig& run, const DecoderConfig& folder);

// All or nothing; the model's parameters are copied over.
Ok load_decoder_weights(Decoder& model, const std::vector<Safetensors>& files);
Ok load_decoder_folder(Decoder& model, const std::string& folder);

// Without adapters. `as`: f32, or bf16, to which the weights are rounded.
Bytes decoder_safetensors(const Decoder& model, SafetensorsType as = SafetensorsType::f32);

}  // namespace dedloc::tasks
