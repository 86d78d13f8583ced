// The sizes of an ALBERT and what follows from them without computing anything. No libtorch.
//
// Source of `xl`: the sahajBERT-XL run's own model (LeanAlbert): GELU(a) ⊙ b for the two halves a,
// b of the wide layer; rotary positions (Su et al. 2104.09864, halves turned against each other).
// Source: Lan et al. 1909.11942; the defaults are ALBERT-large v2 with 30,000 pieces, the model of
//         the DeDLOC experiments: 17,847,474 parameters.
// Thread: any; pure.

#pragma once
#include <cstdint>

#include "dedloc/base/result.h"
#include "dedloc/run/field_rules.h"

namespace dedloc::tasks {

// The keys of [albert], and task.model.
struct AlbertConfig {
    std::int64_t vocabulary = 30'000;
    std::int64_t embedding = 128;  // width of the factorised embedding
    std::int64_t hidden = 1024;
    std::int64_t layers = 24;  // all with the same parameters
    std::int64_t heads = 16;
    std::int64_t feed_forward = 4096;
    std::int64_t positions = 512;     // longest sequence
    double dropout = 0;               // of embeddings and of what attention returns
    double attention_dropout = 0;     // of attention's weights
    double classifier_dropout = 0.1;  // before the sentence-order head
    // The second run's model (sahajBERT-XL): half of the wide layer gates the other, positions turn
    // queries and keys instead of being learned, and heads read the first piece's state as it is.
    bool xl = false;  // task.model

    friend bool operator==(const AlbertConfig&, const AlbertConfig&) = default;

    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        using run::Integers;
        using run::Numbers;
        constexpr std::uint64_t size_max = 1u << 20;
        visit("vocabulary", self.vocabulary, Integers{6, size_max}, "at least the tokenizer's");
        visit("embedding", self.embedding, Integers{1, size_max});
        visit("hidden", self.hidden, Integers{1, size_max});
        visit("layers", self.layers, Integers{1, 1024});
        visit("heads", self.heads, Integers{1, size_max});
        visit("feed_forward", self.feed_forward, Integers{1, size_max});
        visit("positions", self.positions, Integers{8, 8192}, "at least text.length");
        visit("dropout", self.dropout, Numbers{0, 0.99});
        visit("attention_dropout", self.attention_dropout, Numbers{0, 0.99});
        visit("classifier_dropout", self.classifier_dropout, Numbers{0, 0.99});
    }
};

inline constexpr std::int64_t albert_token_types = 2;
inline constexpr std::int64_t albert_pad_id = 0;
inline constexpr double albert_norm_epsilon = 1e-12;
inline constexpr double albert_initial_deviation = 0.02;

// bad_input with the field's name: a size out of bounds, heads that do not divide hidden.
Ok check(const AlbertConfig& config);

std::int64_t parameters_count(const AlbertConfig& config);

// ln V + ln 2: the mean loss of a model that knows nothing.
double loss_of_ignorance(const AlbertConfig& config);

// Bytes of fp32 that one gradient computation keeps at the same time.
struct AlbertMemory {
    std::uint64_t parameters = 0;   // with their gradients, and the sums of those
    std::uint64_t activations = 0;  // of `rows` sequences of `columns` tokens, `masked` of them
                                    // predicted
    // Beside the model: the averaged vector, the state before and after a step with its moments.
    std::uint64_t collaboration = 0;
    std::uint64_t program = 0;
    std::uint64_t total() const { return parameters + activations + collaboration + program; }
};
AlbertMemory memory_estimate(const AlbertConfig& config,
                             std::int64_t rows,
                             std::int64_t columns,
                             std::int64_t masked);

// Multiplications and additions, forward and back.
double operations_count(const AlbertConfig& config,
                        std::int64_t rows,
                        std::int64_t columns,
                        std::int64_t masked);

}  // namespace dedloc::tasks
