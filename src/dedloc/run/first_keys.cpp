#include "dedloc/run/first_keys.h"

#include "dedloc/run/field_words.h"

namespace dedloc::run {

namespace {

struct KeysOfSection {
    std::string_view section;
    std::string_view keys;  // with blanks between
};

// clang-format off
constexpr KeysOfSection first_keys[] = {
    {"",
     "format name numerics optimizer_numerics protocol robust_numerics"},
    {"access",
     "authority"},
    {"albert",
     "attention_dropout classifier_dropout dropout embedding feed_forward "
     "heads hidden layers positions vocabulary"},
    {"averaging",
     "codec codec_threshold delayed group_max leave_out_slow norm_max "
     "part_elements_max quorum_timeout round_deadline_max round_deadline_min "
     "voter_after_contributions"},
    {"batch",
     "micro target"},
    {"checkpoint",
     "every"},
    {"evaluate",
     "every"},
    {"experts",
     "at_least best grid hidden keepers name rate update_batch"},
    {"language_model",
     "feed_forward heads hidden key_value_heads layers norm_epsilon positions "
     "recompute rope_base tied vocabulary"},
    {"local",
     "batch fragments"},
    {"moe_classifier",
     "width"},
    {"optimizer",
     "beta1 beta2 debias epsilon gradient_norm_max kind larc larc_clip "
     "larc_epsilon larc_trust moments_8bit momentum nesterov norm_clamp "
     "orthogonal_steps weight_decay"},
    {"pictures",
     "codes codes_hash codes_side codes_steps codes_width held_out "
     "pictures_hash side"},
    {"robust",
     "check eps iterations_max probation quorum reducer tau tolerance "
     "trust_after weight_cap"},
    {"schedule",
     "decay_every decay_factor final_fraction kind peak total_steps "
     "warmup_start warmup_steps"},
    {"stop",
     "accuracy samples steps"},
    {"swav",
     "blur colour epsilon grey held_out held_out_max iterations large_crops "
     "large_scale_max large_scale_min large_side neighbours pictures "
     "prototypes_frozen_until queue queue_from small_crops small_scale_max "
     "small_scale_min small_side strength temperature"},
    {"task",
     "data kind model precision seed"},
    {"text",
     "corpus_hash held_out held_out_samples length masked masked_as_mask "
     "masked_as_random pad_multiple tokenizer tokenizer_hash window_samples"},
    {"text_to_image",
     "convolution_side head_width heads layers reversible shared_layers "
     "text_length width words"},
    {"torchscript",
     "deviation held_out mean model_hash picture_side text_length"},
};
// clang-format on

bool has_word(std::string_view words, std::string_view word) {
    for (std::size_t at = words.find(word); at != std::string_view::npos;
         at = words.find(word, at + 1)) {
        const std::size_t end = at + word.size();
        if ((at == 0 || words[at - 1] == ' ') && (end == words.size() || words[end] == ' '))
            return true;
    }
    return false;
}

}  // namespace

bool is_first_key(std::string_view key) {
    std::string_view section = section_of(key);
    constexpr std::string_view local = "local.";  // has sections of its own, with the same keys
    if (section.starts_with(local)) section.remove_prefix(local.size());
    for (const KeysOfSection& known : first_keys)
        if (known.section == section) return has_word(known.keys, last_part(key));
    return false;
}

}  // namespace dedloc::run
