// [language_model]: the sizes of the model (language_model_config.h); [text]: how documents become
// rows. No libtorch.
//
// Thread: any; pure.

#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "dedloc/run/task_section.h"
#include "dedloc/tasks/language_model/language_model_config.h"
#include "dedloc/tasks/text_section.h"
#include "dedloc/text/language_data.h"

namespace dedloc::tasks {

inline constexpr const char* language_model_section_name = "language_model";
inline constexpr const char* gpt2_name = "gpt2";  // task.model
inline constexpr const char* llama_name = "llama";

// The keys of [text] that a language model has, read by text_section.h as well.
struct PackedTextKeys {
    std::string tokenizer = "kind=byte_bpe&vocabulary=8192";
    std::string tokenizer_hash = undecided_hash;
    std::string corpus_hash = undecided_hash;
    std::uint64_t length = 512;
    double held_out = 0.02;
    std::uint64_t held_out_samples = 64;
    std::uint64_t window_samples = 1024;

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        using run::Integers;
        visit_text_files(visit, self);
        visit("length",
              self.length,
              Integers{8, 8192},
              "tokens of a sample: documents, one behind the other, none of which sees another");
        visit_text_samples(visit, self);
    }
};

PackedTextKeys packed_text_keys(const run::TaskConfig& task);
// bad_input: sizes that make no model, or no room for text.length.
Result<DecoderConfig> decoder_sizes(const run::TaskConfig& task);
Result<text::LanguageDataConfig> language_data_config(const run::TaskConfig& task);

}  // namespace dedloc::tasks
