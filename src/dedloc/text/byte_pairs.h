// Byte-pair encoding: the pieces of a word, by merging its rarest-ranked neighbours first.
//
//   pieces, merges ──▶ BytePairs::encode_word("hello") ──▶ ids
//
// Pieces are bytes, whatever alphabet a file writes them in (tokenizer_json.h reads files). A word
// begins as its bytes, or as its characters where some have no piece for every byte; a character
// without a piece becomes the pieces of its bytes (byte fallback), else the unknown one.
//
// Source: Sennrich et al. 1508.07909; the order of merges as in the `tokenizers` package (lowest
//         rank, leftmost). Cost: n log n of a word's letters. Thread: any; immutable.

#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace dedloc::text {

inline constexpr std::uint32_t no_piece = ~std::uint32_t{0};

// A map from text that can be asked with a view.
struct TextHash {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
        return std::hash<std::string_view>()(text);
    }
};
template <typename Value>
using TextMap = std::unordered_map<std::string, Value, TextHash, std::equal_to<>>;

struct BytePairsParts {
    TextMap<std::uint32_t> ids;  // of pieces, by their bytes
    struct Merge {
        std::uint32_t left = 0;
        std::uint32_t right = 0;
        std::uint32_t merged = 0;
    };
    std::vector<Merge> merges;               // the first goes first
    std::array<std::uint32_t, 256> bytes{};  // piece of each byte; no_piece: none
    bool by_characters = false;              // a word begins as characters, not as bytes
    std::uint32_t unknown = no_piece;        // for characters without a piece
    bool joins_unknown = false;              // several in a row are one
    bool takes_whole_words = false;          // a word that is a piece is not parted
};

class BytePairs {
  public:
    explicit BytePairs(BytePairsParts parts);
    void encode_word(std::string_view word, std::vector<std::uint32_t>& ids) const;

  private:
    struct Rule {
        std::uint32_t rank = 0;
        std::uint32_t merged = 0;
    };
    struct Symbol {
        std::uint32_t id = 0;
        std::int32_t before = -1;
        std::int32_t after = -1;
        bool gone = false;
    };
    static std::uint64_t pair(std::uint32_t left, std::uint32_t right) {
        return std::uint64_t{left} << 32 | right;
    }
    const Rule* rule(std::uint32_t left, std::uint32_t right) const;
    std::vector<Symbol> symbols_of(std::string_view word) const;
    void merge(std::vector<Symbol>& symbols) const;

    BytePairsParts parts_;
    std::unordered_map<std::uint64_t, Rule> rules_;
};

// The letter in which byte-level tokenizers write each byte: printable ones as they are, the rest
// from U+0100 on. Source: GPT-2's bytes_to_unicode.
const std::array<char32_t, 256>& letters_of_bytes();

}  // namespace dedloc::text
