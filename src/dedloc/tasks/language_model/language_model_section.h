// [language_model]: the sizes of the model; [text]: how documents become rows. No libtorch.
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

struct LanguageModelKeys {
    std::uint64_t vocabulary = 50257;
    std::uint64_t hidden = 768;
    std::uint64_t layers = 12;
    std::uint64_t heads = 12;
    std::uint64_t key_value_heads = 12;
    std::uint64_t feed_forward = 3072;
    std::uint64_t positions = 1024;
    bool tied = true;
    double rope_base = 10000;
    double norm_epsilon = 1e-5;
    bool recompute = false;

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        using run::Integers;
        using run::Numbers;
        constexpr std::uint64_t size_max = 1u << 20;
        visit("vocabulary", self.vocabulary, Integers{8, size_max}, "at least the tokenizer's");
        visit("hidden", self.hidden, Integers{2, size_max});
        visit("layers", self.layers, Integers{1, 1024});
        visit("heads", self.heads, Integers{1, size_max});
        visit("key_value_heads",
              self.key_value_heads,
              Integers{1, size_max},
              "llama: fewer than heads share keys and values; gpt2: as many");
        visit("feed_forward", self.feed_forward, Integers{1, size_max});
        visit("positions", self.positions, Integers{8, 8192}, "at least text.length");
        visit("tied",
              self.tied,
              std::string_view(
                  "true: the word embedding is the last product as well; false: a llama only"));
        visit("rope_base", self.rope_base, Numbers{1, 1e9}, "of rotary positions: llama");
        visit("norm_epsilon", self.norm_epsilon, Numbers{1e-12, 1e-2});
        visit(
            "recompute",
            self.recompute,
            std::string_view("true: layers are computed again on the way back; a third more time, "
                             "a tenth of the memory for activations"));
    }
};

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
LanguageModelKeys keys_from(const DecoderConfig& sizes);
Result<text::LanguageDataConfig> language_data_config(const run::TaskConfig& task);

}  // namespace dedloc::tasks
