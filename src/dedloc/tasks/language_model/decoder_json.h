// config.json of Hugging Face's GPT2LMHeadModel and LlamaForCausalLM. No libtorch.
//
// Thread: any; pure. Errors: bad_input: a size that is missing or none; unsupported: what these
// models may have and ours has not (another activation, scaled rotary positions, biases).

#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "dedloc/tasks/language_model/language_model_config.h"

namespace dedloc::tasks {

inline constexpr std::size_t decoder_json_bytes_max = 1u << 20;

struct DecoderTokens {
    std::int64_t begin = 0;
    std::int64_t end = 0;
};
std::string decoder_json(const DecoderConfig& sizes, const DecoderTokens& tokens);
Result<DecoderConfig> decoder_from_json(std::string_view text);

}  // namespace dedloc::tasks
