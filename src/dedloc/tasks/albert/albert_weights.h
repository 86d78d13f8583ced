// An ALBERT's weights and sizes in Hugging Face's files.
//
//   model.safetensors   AlbertForPreTraining's names; the decoder, which is tied to the word
//                       embedding, is not there twice
//   config.json         what AutoConfig reads
//   tokenizer_config.json  beside the tokenizer's own file: its normalization is all there is
//   model.pt            TorchScript: forward(input_ids, attention_mask, token_type_ids) gives word
//                       scores [rows, columns, vocabulary] and order scores [rows, 2]; its
//                       state_dict has the same names
//
// TorchScript is compiled from source text: libtorch's C++ modules cannot be traced or scripted.
//
// Errors: bad_input says which weight is missing, left over or of another shape; cannot_compute
// what libtorch says.
// Only for files that see libtorch. Thread: one at a time.

#pragma once
#include <string>
#include <string_view>

#include "dedloc/tasks/albert/albert_model.h"
#include "dedloc/tasks/safetensors.h"

namespace dedloc::tasks {

inline constexpr std::size_t albert_config_bytes_max = 1u << 20;

// All or nothing; the model's parameters are copied over.
Ok load_albert_weights(AlbertModel& model, const Safetensors& weights);
// From a folder with config.json and model.safetensors. not_found: a file that is not there.
Ok load_albert_folder(AlbertModel& model, const std::string& folder);
Bytes albert_safetensors(const AlbertModel& model);

std::string albert_config_json(const AlbertConfig& config);
// Refuses what our model does not do (another activation, several layer groups).
Result<AlbertConfig> albert_config_from_json(std::string_view text);

// Without it AlbertTokenizer lowers case and takes accents off before the tokenizer's own rules.
std::string albert_tokenizer_json(const AlbertConfig& config);

Result<Bytes> albert_torchscript(const AlbertModel& model);

}  // namespace dedloc::tasks
