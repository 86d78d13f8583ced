#include "dedloc/tasks/language_model/lora_files.h"

#include <nlohmann/json.hpp>

#include "dedloc/security/hash.h"
#include "dedloc/tasks/language_model/language_model_section.h"
#include "dedloc/tasks/language_model/language_model_weights.h"
#include "dedloc/tasks/language_model/lora_base_file.h"
#include "dedloc/tasks/module_weights.h"

namespace dedloc::tasks {

namespace {

constexpr std::string_view peft_prefix = "base_model.model.";

DecoderConfig without_adapters(DecoderConfig sizes) {
    sizes.lora = {};
    return sizes;
}

// All peers, the host as well, have the weights that this file has, rounded as it rounds them.
Result<LoraBase> base_of(const DecoderConfig& sizes, Digest name, SharedBytes file) {
    LoraBase base;
    base.name = name;
    base.file = std::move(file);
    DEDLOC_TRY(const Safetensors parsed, parse_safetensors(*base.file));
    auto model = std::make_shared<Decoder>(without_adapters(sizes), 1);
    const Ok loaded = load_decoder_weights(*model, {parsed});
    if (!loaded) return loaded.error().with_context("the base weights of the run");
    base.model = std::move(model);
    return base;
}

Result<LoraBase> base_from_folder(const DecoderConfig& sizes, const std::string& folder) {
    Decoder model(without_adapters(sizes), 1);
    DEDLOC_TRY_VOID(load_decoder_folder(model, folder));
    SharedBytes file(decoder_safetensors(model, SafetensorsType::bf16));
    const Digest name = security::sha256(file);
    DEDLOC_TRY_VOID(keep_lora_base(name, file));
    return base_of(sizes, name, std::move(file));
}

std::vector<std::string> target_modules(const DecoderConfig& sizes) {
    const bool all = sizes.lora.everywhere();
    if (sizes.family == DecoderFamily::gpt2)
        return all ? std::vector<std::string>{"c_attn", "c_proj", "c_fc"}
                   : std::vector<std::string>{"c_attn"};
    return all ? std::vector<std::string>{"q_proj",
                                          "k_proj",
                                          "v_proj",
                                          "o_proj",
                                          "gate_proj",
                                          "up_proj",
                                          "down_proj"}
               : std::vector<std::string>{"q_proj", "v_proj"};
}

}  // namespace

Result<std::optional<LoraBase>> lora_base(const DecoderConfig& sizes,
                                          const std::string& weights_directory) {
    if (!sizes.lora.is_on()) return std::optional<LoraBase>();
    DEDLOC_TRY(const auto name, hash_from("language_model.base_hash", sizes.lora.base_hash));
    if (!name && weights_directory.empty())
        return make_error(ErrorKind::bad_input,
                          "language_model.lora_rank: adapters stand beside published weights; say "
                          "where they are: `dedloc host RUNFILE --weights FOLDER`");
    if (!name) {
        DEDLOC_TRY(LoraBase made, base_from_folder(sizes, weights_directory));
        return std::optional<LoraBase>(std::move(made));
    }
    SharedBytes file = lora_base_in_cache(*name);
    if (!file)
        return make_error(ErrorKind::not_found,
                          "the weights under this run's adapters are not on this machine: they lie "
                          "in the folder of a peer (files/), or at the run's peers");
    DEDLOC_TRY(LoraBase kept, base_of(sizes, *name, std::move(file)));
    return std::optional<LoraBase>(std::move(kept));
}

std::string adapter_config(const DecoderConfig& sizes) {
    const nlohmann::ordered_json out{{"peft_type", "LORA"},
                                     {"task_type", "CAUSAL_LM"},
                                     {"r", sizes.lora.rank},
                                     {"lora_alpha", sizes.lora.alpha},
                                     {"lora_dropout", 0.0},
                                     {"bias", "none"},
                                     {"fan_in_fan_out", sizes.family == DecoderFamily::gpt2},
                                     {"target_modules", target_modules(sizes)},
                                     {"inference_mode", true},
                                     {"base_model_name_or_path", nullptr}};
    return out.dump(2) + "\n";
}

Bytes adapter_safetensors(const Decoder& model) {
    WeightsFile file;
    for (const auto& item : model.named_parameters())
        if (Decoder::is_adapter(item.key()))
            file.add(std::string(peft_prefix) + item.key(), item.value());
    return file.encoded();
}

}  // namespace dedloc::tasks
