// tokenizer.json of Hugging Face's `tokenizers` with a model of byte-pair encoding, and the same
// ids. What is read, and nothing else (unsupported says which part):
//
//   normalizer     none; Prepend, Replace (a text by a text), alone or in a Sequence
//   pre_tokenizer  none; ByteLevel; Digits; Split by the patterns of word_patterns.h; Metaspace;
//                  a Sequence of these
//   model          BPE, with byte fallback or without, unknown piece, ignore_merges
//   added tokens   found in the text before all else; longest first
//
// The document's begin and end are the added tokens that published models have for it (<s> and
// </s>, <|endoftext|>, …). What the file says of post-processing is not done: the caller adds begin
// and end by itself.
//
// Source: huggingface/tokenizers 0.15, the form that it serializes. Cost: 2 MB/s of text on one
// core. Thread: any; immutable. Errors: those of LanguageTokenizer.

#pragma once
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/text/byte_pairs.h"
#include "dedloc/text/language_tokenizer.h"
#include "dedloc/text/word_patterns.h"

namespace dedloc::text {

inline constexpr const char* tokenizer_json_name = "tokenizer.json";
inline constexpr std::size_t added_tokens_max =
    4096;  // each is looked for at each letter that begins one
inline constexpr std::size_t merges_max = 2'000'000;  // twice the pieces
inline constexpr std::size_t replacements_max = 16;   // of a normalizer; published ones have one

// A text between added tokens is changed and parted like this before its words are encoded.
struct WordCutting {
    std::vector<std::pair<std::string, std::string>> replacements;  // in this order
    std::string prepended;  // before every text that is not empty
    std::string space;      // Metaspace: stands in the place of a space; empty: no such thing
    enum class Prepend { never, first, always } space_first = Prepend::never;
    bool splits_at_space = false;  // a word begins with each of them
    bool prefix_space = false;     // ByteLevel: a text begins with a space
    bool digits_alone = false;
    std::optional<WordPattern> pattern;
};

struct AddedToken {
    std::string text;
    std::uint32_t id = 0;
    bool special = false;
    bool takes_space_before = false;
    bool takes_space_behind = false;
};

class ByteTokenizer final : public LanguageTokenizer {
  public:
    static Result<std::shared_ptr<LanguageTokenizer>> parse(std::string_view json);

    using LanguageTokenizer::encode;
    void encode(std::string_view text, std::vector<std::uint32_t>& ids) const override;
    std::uint32_t size() const override { return static_cast<std::uint32_t>(pieces_.size()); }
    std::string_view piece(std::uint32_t id) const override { return pieces_[id].shown; }
    std::string text_of(std::uint32_t id) const override {
        return pieces_[id].special ? std::string() : pieces_[id].bytes;
    }
    bool drops_first_space() const override { return drops_first_space_; }
    std::uint32_t begin_id() const override { return begin_; }
    std::uint32_t end_id() const override { return end_; }
    std::string_view file_name() const override { return tokenizer_json_name; }

  private:
    friend class TokenizerJsonReader;
    struct Piece {
        std::string shown;  // as the file writes it
        std::string bytes;  // what it stands for
        bool special = false;
    };
    explicit ByteTokenizer(BytePairsParts parts) : pairs_(std::move(parts)) {}
    void encode_plain(std::string_view text, bool is_first, std::vector<std::uint32_t>& ids) const;
    // The added token that begins here, the longest one; null: none.
    const AddedToken* added_at(std::string_view text) const;

    BytePairs pairs_;
    WordCutting cutting_;
    std::vector<Piece> pieces_;
    std::vector<AddedToken> added_;  // longest first
    std::array<bool, 256> begins_added_{};
    bool drops_first_space_ = false;  // of what is decoded
    std::uint32_t begin_ = 0;
    std::uint32_t end_ = 0;
};

// The file of a byte-level tokenizer with GPT-2's pattern: <|endoftext|>, the 256 bytes, and the
// merges (pairs of ids) in order.
std::string byte_tokenizer_json(const std::vector<BytePairsParts::Merge>& merges,
                                const std::vector<std::string>& pieces);

}  // namespace dedloc::text
