// A SentencePiece unigram tokenizer: sentences to the ids of pieces and back.
//
// The file is a SentencePiece model (.model), which SentencePiece and Hugging Face's
// AlbertTokenizer open as well. What ours knows beyond theirs (the recipe, measured bytes a token)
// is in one more field, which they skip. The file's SHA-256 names the tokenizer in the run file:
// ids mean the same on two peers only when the hash is the same.
//
// Encoding is our own code: SentencePiece's library carries a protobuf that does not live in one
// process with libtorch's (docs/decisions/0005). Ids equal the library's; a test compares them.
//
// Source: T. Kudo, Subword Regularization, 2018 (unigram model, Viterbi); SentencePiece 0.1.97,
// src/unigram_model.cc (EncodeOptimized). Cost: 3 M tokens/s. Thread: any; immutable.
// Errors: bad_input    not a tokenizer, or not one of ours (which special piece is missing)
//         unsupported  BPE, byte fallback
//         conflict     another hash than the run's
//         not_found    no such file

#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "dedloc/base/bytes.h"
#include "dedloc/text/normalizer.h"
#include "dedloc/text/piece_trie.h"
#include "dedloc/text/recipe.h"

namespace dedloc::text {

inline constexpr std::size_t tokenizer_bytes_max = 64u << 20;
inline constexpr std::size_t piece_bytes_max = 1024;
// Letters of all pieces together: a million of eight each. Their trie takes up to 18 times as much.
inline constexpr std::size_t pieces_bytes_max = 8u << 20;

struct SpecialPieces {  // with the ids that our tokenizers and Hugging Face's ALBERT have
    std::uint32_t pad = 0;
    std::uint32_t unknown = 1;
    std::uint32_t cls = 2;
    std::uint32_t sep = 3;
    std::uint32_t mask = 4;
};
inline constexpr std::uint32_t special_pieces = 5;

class Tokenizer {
  public:
    static Result<std::shared_ptr<const Tokenizer>> parse(ByteView file);
    // With `expected`: conflict unless the file has this hash.
    static Result<std::shared_ptr<const Tokenizer>> load(
        const std::string& path, const std::optional<Digest>& expected = std::nullopt);

    // Appends the ids of one sentence; never those of special pieces but <unk>.
    void encode(std::string_view sentence, std::vector<std::uint32_t>& ids) const;
    std::vector<std::uint32_t> encode(std::string_view sentence) const;
    // For people: special pieces appear by their names, pad not at all. Ids out of range are "?".
    std::string decode(std::span<const std::int64_t> ids) const;

    std::uint32_t size() const { return static_cast<std::uint32_t>(pieces_.size()); }
    std::string_view piece(std::uint32_t id) const { return pieces_[id].text; }
    bool is_special(std::uint32_t id) const;
    const SpecialPieces& special() const { return special_; }
    const Digest& hash() const { return hash_; }
    const Bytes& file() const { return file_; }
    // As the file says; nothing in files of other tools.
    const std::optional<TokenizerRecipe>& recipe() const { return recipe_; }
    const Normalizer& normalizer() const { return normalizer_; }

  private:
    enum class Kind : std::int32_t {
        normal = 1,
        unknown = 2,
        control = 3,
        user_defined = 4,
        unused = 5,
        byte = 6,
    };
    struct Piece {
        std::string text;
        float score = 0;
        Kind kind = Kind::normal;
    };
    struct Best {  // the best way to reach a place of the text
        float score = 0;
        std::int32_t begin = -1;
        std::int32_t piece = -1;
    };
    struct Parts;

    Tokenizer(Parts&& parts);
    static Result<Parts> read_parts(ByteView file);
    static Ok find_special_pieces(Parts& parts);
    std::vector<Best> best_ways(std::string_view text) const;

    std::vector<Piece> pieces_;
    Normalizer normalizer_;
    PieceTrie trie_;
    SpecialPieces special_;
    float unknown_score_ = 0;
    float largest_score_ = 0;
    Digest hash_;
    Bytes file_;
    std::optional<TokenizerRecipe> recipe_;
};

// conflict unless a tokenizer's file has the hash that the run wants, if it wants one.
Ok check_tokenizer_hash(const std::string& path,
                        const Digest& hash,
                        const std::optional<Digest>& expected);

// A SentencePiece model with our field behind it.
Result<Bytes> with_recipe(ByteView model, const TokenizerRecipe& recipe);

}  // namespace dedloc::text
