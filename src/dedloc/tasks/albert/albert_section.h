// [albert]: the sizes of the model. Defaults are ALBERT-large's; the vocabulary may be larger than
// the tokenizer's. No libtorch.
//
// Thread: any; pure.

#pragma once
#include <cstdint>

#include "dedloc/run/task_section.h"
#include "dedloc/tasks/albert/albert_config.h"

namespace dedloc::tasks {

inline constexpr const char* albert_section_name = "albert";

struct AlbertKeys {
    std::uint64_t vocabulary = 30000;
    std::uint64_t embedding = 128;
    std::uint64_t hidden = 1024;
    std::uint64_t layers = 24;
    std::uint64_t heads = 16;
    std::uint64_t feed_forward = 4096;
    std::uint64_t positions = 512;
    double dropout = 0;
    double attention_dropout = 0;
    double classifier_dropout = 0.1;

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

// bad_input: sizes that make no model, or no room for text.length.
Result<AlbertConfig> albert_sizes(const run::TaskConfig& task);

}  // namespace dedloc::tasks
