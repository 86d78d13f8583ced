#include "dedloc/tasks/language_model/language_model_section.h"

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
    const auto keys = run::keys_of<LanguageModelKeys>(task, language_model_section_name);
    DecoderConfig sizes;
    sizes.family = task.model == llama_name ? DecoderFamily::llama : DecoderFamily::gpt2;
    sizes.vocabulary = static_cast<std::int64_t>(keys.vocabulary);
    sizes.hidden = static_cast<std::int64_t>(keys.hidden);
    sizes.layers = static_cast<std::int64_t>(keys.layers);
    sizes.heads = static_cast<std::int64_t>(keys.heads);
    sizes.key_value_heads = static_cast<std::int64_t>(keys.key_value_heads);
    sizes.feed_forward = static_cast<std::int64_t>(keys.feed_forward);
    sizes.positions = static_cast<std::int64_t>(keys.positions);
    sizes.tied = keys.tied;
    sizes.rope_base = keys.rope_base;
    sizes.norm_epsilon = keys.norm_epsilon;
    sizes.recompute = keys.recompute;
    DEDLOC_TRY_VOID(check(sizes));
    const PackedTextKeys text = packed_text_keys(task);
    if (text.length > keys.positions)
        return make_error(ErrorKind::bad_input,
                          "text.length: {} tokens do not fit language_model.positions = {}",
                          text.length,
                          keys.positions);
    return sizes;
}

LanguageModelKeys keys_from(const DecoderConfig& sizes) {
    const auto natural = [](std::int64_t size) { return static_cast<std::uint64_t>(size); };
    return {.vocabulary = natural(sizes.vocabulary),
            .hidden = natural(sizes.hidden),
            .layers = natural(sizes.layers),
            .heads = natural(sizes.heads),
            .key_value_heads = natural(sizes.key_value_heads),
            .feed_forward = natural(sizes.feed_forward),
            .positions = natural(sizes.positions),
            .tied = sizes.tied,
            .rope_base = sizes.rope_base,
            .norm_epsilon = sizes.norm_epsilon,
            .recompute = sizes.recompute};
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
