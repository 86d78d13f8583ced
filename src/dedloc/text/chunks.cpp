#include "dedloc/text/chunks.h"

namespace dedloc::text {

namespace {

// Sentences of the chunk that is being filled; those of closed chunks are before them.
class Filler {
  public:
    Filler(Chunks& chunks, std::uint32_t max_length) : chunks_(chunks), max_length_(max_length) {}

    void add(std::span<const std::uint32_t> sentence) {
        if (sentence.empty()) return;
        const std::size_t half = max_length_ / 2;
        const std::size_t parts =
            sentence.size() < max_length_ ? 1 : (sentence.size() + half - 1) / half;
        for (std::size_t part = 0; part < parts; ++part) {
            const std::size_t from = sentence.size() * part / parts;
            const std::size_t to = sentence.size() * (part + 1) / parts;
            add_short(sentence.subspan(from, to - from));
        }
    }

    void end_document() { close(); }

  private:
    void add_short(std::span<const std::uint32_t> sentence) {
        chunks_.tokens.insert(chunks_.tokens.end(), sentence.begin(), sentence.end());
        chunks_.begin.push_back(static_cast<std::uint32_t>(chunks_.tokens.size()));
        const std::size_t tokens = chunks_.tokens.size() - chunks_.begin[chunks_.first.back()];
        if (tokens >= max_length_) close();
    }

    void close() {
        const std::uint32_t first = chunks_.first.back();
        const std::size_t sentences = chunks_.begin.size() - 1 - first;
        if (sentences >= 2) {
            chunks_.first.push_back(static_cast<std::uint32_t>(chunks_.begin.size() - 1));
            return;
        }
        chunks_.begin.resize(first + 1);
        chunks_.tokens.resize(chunks_.begin.back());
    }

    Chunks& chunks_;
    std::size_t max_length_;
};

}  // namespace

void Chunks::append(const Chunks& other, std::size_t chunk) {
    for (std::size_t i = 0; i < other.sentences_count(chunk); ++i) {
        const auto sentence = other.sentences(chunk, i, i + 1);
        tokens.insert(tokens.end(), sentence.begin(), sentence.end());
        begin.push_back(static_cast<std::uint32_t>(tokens.size()));
    }
    first.push_back(static_cast<std::uint32_t>(begin.size() - 1));
}

Chunks make_chunks(const std::vector<Document>& documents,
                   const Tokenizer& tokenizer,
                   std::uint32_t max_length) {
    Chunks chunks;
    Filler filler(chunks, max_length);
    std::vector<std::uint32_t> ids;
    for (const Document& document : documents) {
        for (const std::string& sentence : document) {
            ids.clear();
            tokenizer.encode(sentence, ids);
            filler.add(ids);
        }
        filler.end_document();
    }
    return chunks;
}

}  // namespace dedloc::text
