#include "dedloc/tasks/language_model/language_model_section.h"

#include <utility>

namespace dedloc::tasks {

PackedTextKeys packed_text_keys(const run::TaskConfig& task) {
    return run::keys_of<PackedTextKeys>(task, text_section_name);
}

Result<DecoderConfig> decoder_sizes(const run::TaskConfig& task) {
    if (task.model != gpt2_name && task.model != llama_name)
        return make_error(ErrorKind::bad_input,
                          "task.model: '{}' is not known; it is \"{}\" or \"{}\", and its sizes "
                          "are in [language_model]",
                          task.model,
                          gpt2_name,
                          llama_name);
    auto sizes = run::keys_of<DecoderConfig>(task, language_model_section_name);
    sizes.family = task.model == llama_name ? DecoderFamily::llama : DecoderFamily::gpt2;
    DEDLOC_TRY_VOID(hash_from("language_model.base_hash", sizes.lora.base_hash));
    DEDLOC_TRY_VOID(check(sizes));
    const PackedTextKeys text = packed_text_keys(task);
    if (std::cmp_greater(text.length, sizes.positions))
        return make_error(ErrorKind::bad_input,
                          "text.length: {} tokens do not fit language_model.positions = {}",
                          text.length,
                          sizes.positions);
    return sizes;
}

Result<text::LanguageDataConfig> language_data_config(const run::TaskConfig& task) {
    const PackedTextKeys keys = packed_text_keys(task);
    text::LanguageDataConfig config;
    config.sources = task.data;
    config.tokenizer = keys.tokenizer;
    DEDLOC_TRY(config.tokenizer_hash, hash_from("text.tokenizer_hash", keys.tokenizer_hash));
    DEDLOC_TRY(config.corpus, expected_corpus(keys.corpus_hash));
    config.length = static_cast<std::uint32_t>(keys.length);
    config.window_samples = static_cast<std::uint32_t>(keys.window_samples);
    config.held_out = keys.held_out;
    DEDLOC_TRY_VOID(check_held_out_share(keys.held_out));
    return config;
}

}  // namespace dedloc::tasks
