// The sizes of a decoder and what follows from them without computing anything. No libtorch.
//
//   gpt2   learned positions, LayerNorm, GELU (tanh form), one product for queries, keys and values
//   llama  rotary positions, RMSNorm, SwiGLU, heads in groups that share keys and values
//
// Source: Radford et al., Language Models are Unsupervised Multitask Learners, 2019; Touvron et al.
// 2302.13971; Shazeer 2002.05202 (SwiGLU); Ainslie et al. 2305.13245 (grouped heads); Su et al.
// 2104.09864 (rotary). GPT-2's smallest has 124,439,808 parameters.
// Thread: any; pure.

#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "dedloc/base/result.h"
#include "dedloc/run/field_rules.h"

namespace dedloc::tasks {

enum class DecoderFamily { gpt2, llama };

// Low-rank adapters beside products whose own weights stay as they are:
// y = W x + alpha / rank * B A x. Source: Hu et al. 2106.09685; names as in the package `peft`.
struct LoraConfig {
    std::int64_t rank = 0;  // 0: none, and the whole model is trained
    double alpha = 32;
    std::string targets = "usual";   // queries and values (gpt2: c_attn), as `peft` does; or "all"
    std::string base_hash = "none";  // of the weights beside them, which the host has

    bool is_on() const { return rank > 0; }
    bool everywhere() const { return targets == "all"; }
    double scale() const { return alpha / static_cast<double>(rank); }
    friend bool operator==(const LoraConfig&, const LoraConfig&) = default;
};

// The keys of [language_model], and task.model.
struct DecoderConfig {
    DecoderFamily family = DecoderFamily::gpt2;  // task.model
    std::int64_t vocabulary = 50'257;
    std::int64_t hidden = 768;
    std::int64_t layers = 12;
    std::int64_t heads = 12;
    std::int64_t key_value_heads = 12;  // gpt2: as many as heads
    std::int64_t feed_forward = 3072;
    std::int64_t positions = 1024;  // longest context
    bool tied = true;               // the word embedding is the last product as well
    double rope_base = 10'000;      // llama
    double norm_epsilon = 1e-5;
    bool recompute = false;  // layers keep only their inputs for the way back
    LoraConfig lora{};

    std::int64_t head_width() const { return hidden / heads; }
    friend bool operator==(const DecoderConfig&, const DecoderConfig&) = default;

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
        visit("lora_rank",
              self.lora.rank,
              Integers{0, 1024},
              "above 0: adapters of this rank are trained, and published weights stay as they are");
        visit("lora_alpha", self.lora.alpha, Numbers{1e-3, 1e6}, "over the rank: their weight");
        visit("lora_targets",
              self.lora.targets,
              run::Choice{{"usual", "all"}},
              "usual: queries and values; all: every product of a layer");
        visit("base_hash",
              self.lora.base_hash,
              run::Text{.bytes_max = 64},
              "none: of the weights under the adapters, which the host has");
    }
};

inline constexpr double decoder_initial_deviation = 0.02;

// bad_input with the field's name.
Ok check(const DecoderConfig& config);

std::int64_t parameters_count(const DecoderConfig& config);  // without adapters
// The vector that is averaged has so many: the adapters', where there are any.
std::int64_t trained_count(const DecoderConfig& config);

// ln V: the mean loss of a token of a model that knows nothing.
double loss_of_ignorance(const DecoderConfig& config);

// Bytes that a trainer needs at the same time.
struct DecoderMemory {
    std::uint64_t parameters = 0;   // with their gradients, and the sums of those
    std::uint64_t activations = 0;  // of `rows` rows of `columns` tokens
    std::uint64_t collaboration = 0;
    std::uint64_t program = 0;
};
DecoderMemory memory_estimate(const DecoderConfig& config, std::int64_t rows, std::int64_t columns);

}  // namespace dedloc::tasks
