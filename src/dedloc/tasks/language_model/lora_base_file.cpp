#include "dedloc/tasks/language_model/lora_base_file.h"

#include <string>

#include "dedloc/tasks/language_model/language_model_section.h"
#include "dedloc/text/cache.h"

namespace dedloc::tasks {

namespace {

LoraConfig keys_of_model(const run::TaskConfig& task) {
    return run::keys_of<DecoderConfig>(task, language_model_section_name).lora;
}

std::string name_in_cache(const Digest& name) { return "bases/" + name.hex() + ".safetensors"; }

}  // namespace

bool leaves_base_open(const run::TaskConfig& task) {
    const LoraConfig keys = keys_of_model(task);
    return keys.is_on() && keys.base_hash == undecided_hash;
}

Ok keep_lora_base(const Digest& name, ByteView file) {
    return text::write_to_cache(name_in_cache(name), file);
}

SharedBytes lora_base_in_cache(const Digest& name) {
    return text::read_from_cache(name_in_cache(name), name, lora_base_bytes_max);
}

Result<std::optional<MissingFile>> missing_lora_base(const run::TaskConfig& task,
                                                     const TaskOptions& /*options*/) {
    const LoraConfig keys = keys_of_model(task);
    if (!keys.is_on()) return std::optional<MissingFile>();
    DEDLOC_TRY(const auto name, hash_from("language_model.base_hash", keys.base_hash));
    if (!name || lora_base_in_cache(*name)) return std::optional<MissingFile>();
    return std::optional<MissingFile>(
        {.what = lora_base_words, .hash = *name, .bytes_max = lora_base_bytes_max});
}

}  // namespace dedloc::tasks
