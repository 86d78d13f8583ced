// Documents to chunks: runs of sentences that fill one sample, from which a pair is drawn.
//
// Sentences are gathered until they have max_length tokens or the document ends. A chunk of one
// sentence gives no pair and is left out. A sentence of max_length tokens or more would always be
// left out or cut: it is first parted into equal pieces of at most half of that.
//
// Source: DeDLOC's tokenize_wikitext103.py (create_instances_from_document), but for the parting.
// Cost: the tokenizer's. Thread: any; pure. Errors: none.

#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "dedloc/text/corpus.h"
#include "dedloc/text/tokenizer.h"

namespace dedloc::text {

inline constexpr std::uint32_t max_length_min = 8;
inline constexpr std::uint32_t max_length_max = 8192;

// The chunks of some text, in order: chunk i has the sentences [first[i], first[i + 1]), sentence j
// the tokens [begin[j], begin[j + 1]).
struct Chunks {
    std::vector<std::uint32_t> tokens;
    std::vector<std::uint32_t> begin{0};
    std::vector<std::uint32_t> first{0};

    std::size_t size() const { return first.size() - 1; }
    std::size_t sentences_count(std::size_t chunk) const { return first[chunk + 1] - first[chunk]; }
    std::span<const std::uint32_t> sentences(std::size_t chunk,
                                             std::size_t from,
                                             std::size_t to) const {
        const std::size_t start = begin[first[chunk] + from];
        return std::span(tokens).subspan(start, begin[first[chunk] + to] - start);
    }
    void append(const Chunks& other, std::size_t chunk);
};

Chunks make_chunks(const std::vector<Document>& documents,
                   const Tokenizer& tokenizer,
                   std::uint32_t max_length);

}  // namespace dedloc::text
