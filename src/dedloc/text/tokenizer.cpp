#include "dedloc/text/tokenizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <unordered_set>

#include "dedloc/base/fields.h"
#include "dedloc/base/file.h"
#include "dedloc/security/hash.h"
#include "dedloc/text/cache.h"
#include "dedloc/text/sentences.h"
#include "dedloc/text/utf8.h"
#include "dedloc/wire/message.h"

namespace dedloc::text {

namespace {

constexpr float unknown_penalty = 10.0F;  // below the rarest piece; SentencePiece's
constexpr std::int32_t unigram = 1;

// sentencepiece_model.proto, as far as we need it. Its defaults are not zero, hence optional.
struct PieceMessage {
    std::string text;
    float score = 0;
    std::optional<std::int32_t> kind;
    DEDLOC_FIELDS(text, score, kind)
};

struct TrainerMessage {
    std::optional<std::int32_t> model_type;
    bool space_as_suffix = false;
    bool byte_fallback = false;
    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(3, self.model_type);
        visit(24, self.space_as_suffix);
        visit(35, self.byte_fallback);
    }
};

struct NormalizerMessage {
    ByteView character_map;
    std::optional<bool> dummy_prefix;
    std::optional<bool> remove_extra_spaces;
    std::optional<bool> escape_spaces;
    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(2, self.character_map);
        visit(3, self.dummy_prefix);
        visit(4, self.remove_extra_spaces);
        visit(5, self.escape_spaces);
    }
};

struct OurMessage {  // what SentencePiece's tools skip
    std::string recipe;
    DEDLOC_FIELDS(recipe)
};
constexpr std::uint32_t our_field = 20000;  // extensions of ModelProto are 200 and above

struct ModelMessage {
    std::vector<PieceMessage> pieces;
    TrainerMessage trainer;
    NormalizerMessage normalizer;
    std::optional<OurMessage> ours;
    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(1, self.pieces, vocabulary_max);
        visit(2, self.trainer);
        visit(3, self.normalizer);
        visit(our_field, self.ours);
    }
};

struct OnlyOurs {
    std::optional<OurMessage> ours;
    template <typename Visitor, typename Self>
    static void fields(Visitor& visit, Self& self) {
        visit(our_field, self.ours);
    }
};

Error not_ours(std::string_view why) {
    return make_error(ErrorKind::bad_input,
                      "not a tokenizer for dedloc ({}); make one with: dedloc tokenizer train",
                      why);
}

}  // namespace

struct Tokenizer::Parts {
    std::vector<Piece> pieces;
    std::vector<PieceTrie::Entry> entries;
    Normalizer normalizer;
    SpecialPieces special;
    float smallest_score = 0;
    float largest_score = 0;
    std::optional<TokenizerRecipe> recipe;
};

Ok Tokenizer::find_special_pieces(Parts& parts) {
    struct Wanted {
        std::string_view name;
        std::string_view other_name;
        Kind kind;
        std::uint32_t& id;
    };
    SpecialPieces& special = parts.special;
    const std::array<Wanted, special_pieces> all{
        {{"<pad>", "[PAD]", Kind::control, special.pad},
         {"<unk>", "[UNK]", Kind::unknown, special.unknown},
         {"[CLS]", "[CLS]", Kind::control, special.cls},
         {"[SEP]", "[SEP]", Kind::control, special.sep},
         {"[MASK]", "[MASK]", Kind::control, special.mask}}};
    for (const Wanted& wanted : all) {
        const auto found =
            std::find_if(parts.pieces.begin(), parts.pieces.end(), [&](const Piece& piece) {
                const bool named = piece.text == wanted.name || piece.text == wanted.other_name;
                // Some models have [MASK] as a symbol of the user.
                return named && (piece.kind == wanted.kind || piece.kind == Kind::user_defined);
            });
        if (found == parts.pieces.end())
            return not_ours(fmt::format("it has no special piece {}", wanted.name));
        found->kind = wanted.kind;
        wanted.id = static_cast<std::uint32_t>(found - parts.pieces.begin());
    }
    const auto unknowns = std::count_if(parts.pieces.begin(),
                                        parts.pieces.end(),
                                        [](const Piece& p) { return p.kind == Kind::unknown; });
    if (unknowns != 1) return not_ours(fmt::format("it has {} unknown pieces", unknowns));
    return {};
}

Result<Tokenizer::Parts> Tokenizer::read_parts(ByteView file) {
    auto decoded = wire::decode<ModelMessage>(file);
    if (!decoded) return not_ours(decoded.error().message());
    ModelMessage& model = *decoded;
    if (model.trainer.model_type.value_or(unigram) != unigram || model.trainer.byte_fallback ||
        model.trainer.space_as_suffix)
        return make_error(ErrorKind::unsupported,
                          "this is a SentencePiece model, but not a unigram one without byte "
                          "fallback and with white space in front; make one with: dedloc "
                          "tokenizer train");
    std::size_t bytes = 0;
    for (const PieceMessage& piece : model.pieces) bytes += piece.text.size();
    if (bytes > pieces_bytes_max)
        return not_ours(fmt::format(
            "its pieces have {} bytes of text, at most {} are read", bytes, pieces_bytes_max));
    Parts parts;
    parts.pieces.reserve(model.pieces.size());
    for (PieceMessage& piece : model.pieces) {
        const std::int32_t kind = piece.kind.value_or(1);
        if (piece.text.empty() || piece.text.size() > piece_bytes_max ||
            first_invalid(piece.text) || !std::isfinite(piece.score) || kind < 1 || kind > 5)
            return not_ours(fmt::format("piece {} is damaged", parts.pieces.size()));
        parts.pieces.push_back({std::move(piece.text), piece.score, static_cast<Kind>(kind)});
    }
    DEDLOC_TRY_VOID(find_special_pieces(parts));
    if (model.ours) {
        DEDLOC_TRY(parts.recipe, parse_recipe(model.ours->recipe));
    }
    DEDLOC_TRY(parts.normalizer,
               Normalizer::make(
                   model.normalizer.character_map,
                   {.dummy_prefix = model.normalizer.dummy_prefix.value_or(true),
                    .remove_extra_spaces = model.normalizer.remove_extra_spaces.value_or(true),
                    .escape_spaces = model.normalizer.escape_spaces.value_or(true),
                    .rules = parts.recipe ? parts.recipe->rules : ReplacementRules::none}));
    return parts;
}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::parse(ByteView file) {
    if (file.size() > tokenizer_bytes_max) return not_ours("it is too large");
    DEDLOC_TRY(Parts parts, read_parts(file));
    std::unordered_set<std::string_view> seen;
    bool any = false;
    for (std::size_t id = 0; id < parts.pieces.size(); ++id) {
        const Piece& piece = parts.pieces[id];
        if (!seen.insert(piece.text).second)
            return not_ours(fmt::format("it has the piece {} twice", piece.text));
        if (piece.kind == Kind::normal) {
            parts.smallest_score = any ? std::min(parts.smallest_score, piece.score) : piece.score;
            parts.largest_score = any ? std::max(parts.largest_score, piece.score) : piece.score;
            any = true;
        }
        if (piece.kind == Kind::normal || piece.kind == Kind::user_defined)
            parts.entries.emplace_back(piece.text, static_cast<std::int32_t>(id));
    }
    if (!any) return not_ours("it has no piece but special ones");
    std::shared_ptr<Tokenizer> tokenizer(new Tokenizer(std::move(parts)));
    tokenizer->hash_ = security::sha256(file);
    tokenizer->file_ = to_bytes(file);
    return std::shared_ptr<const Tokenizer>(std::move(tokenizer));
}

Tokenizer::Tokenizer(Parts&& parts)
    : pieces_(std::move(parts.pieces)),
      normalizer_(std::move(parts.normalizer)),
      trie_(std::move(parts.entries)),
      special_(parts.special),
      unknown_score_(parts.smallest_score - unknown_penalty),
      largest_score_(parts.largest_score),
      recipe_(parts.recipe) {}

Result<std::shared_ptr<const Tokenizer>> Tokenizer::load(const std::string& path,
                                                         const std::optional<Digest>& expected) {
    DEDLOC_TRY(const std::string file, base::read_file(path, tokenizer_bytes_max));
    const Digest hash = security::sha256(as_bytes(file));
    DEDLOC_TRY_VOID(check_tokenizer_hash(path, hash, expected));
    auto tokenizer = parse(as_bytes(file));
    if (!tokenizer) return tokenizer.error().with_context(path);
    return tokenizer;
}

bool Tokenizer::is_special(std::uint32_t id) const {
    return pieces_[id].kind == Kind::control || pieces_[id].kind == Kind::unknown;
}

std::vector<Tokenizer::Best> Tokenizer::best_ways(std::string_view text) const {
    std::vector<Best> best(text.size() + 1);
    // Sums in double, kept as float, as in SentencePiece: ties must fall the same way.
    const auto offer = [&](std::size_t end, double score, std::size_t begin, std::int32_t piece) {
        Best& at = best[end];
        if (at.begin < 0 || score > static_cast<double>(at.score))
            at = {static_cast<float>(score), static_cast<std::int32_t>(begin), piece};
    };
    for (std::size_t begin = 0; begin < text.size();) {
        const double score = best[begin].score;
        const std::size_t letter = std::min(character_bytes(text[begin]), text.size() - begin);
        bool letter_is_piece = false;
        PieceTrie::Step step{PieceTrie::root};
        for (std::size_t end = begin; end < text.size() && trie_.step(step, text[end]);) {
            ++end;
            if (step.value < 0) continue;
            const Piece& piece = pieces_[static_cast<std::size_t>(step.value)];
            const std::size_t length = end - begin;
            const double own = piece.kind == Kind::user_defined
                                   ? static_cast<float>(length) * largest_score_ - 0.1
                                   : static_cast<double>(piece.score);
            offer(end, own + score, begin, step.value);
            letter_is_piece = letter_is_piece || length == letter;
        }
        if (!letter_is_piece)
            offer(begin + letter,
                  static_cast<double>(unknown_score_) + score,
                  begin,
                  static_cast<std::int32_t>(special_.unknown));
        begin += letter;
    }
    return best;
}

void Tokenizer::encode(std::string_view sentence, std::vector<std::uint32_t>& ids) const {
    const std::string text = normalizer_.normalize(sentence);
    const std::vector<Best> best = best_ways(text);
    const std::size_t first = ids.size();
    // Backwards; a run of unknown letters is one <unk>.
    for (std::size_t end = text.size(); end > 0;) {
        const auto id = static_cast<std::uint32_t>(best[end].piece);
        const bool repeats = id == special_.unknown && ids.size() > first && ids.back() == id;
        if (!repeats) ids.push_back(id);
        end = static_cast<std::size_t>(best[end].begin);
    }
    std::reverse(ids.begin() + static_cast<std::ptrdiff_t>(first), ids.end());
}

std::vector<std::uint32_t> Tokenizer::encode(std::string_view sentence) const {
    std::vector<std::uint32_t> ids;
    encode(sentence, ids);
    return ids;
}

std::string Tokenizer::decode(std::span<const std::int64_t> ids) const {
    std::string text;
    for (const std::int64_t id : ids) {
        if (id == special_.pad) continue;
        if (id < 0 || id >= static_cast<std::int64_t>(pieces_.size())) {
            text += " ?";
            continue;
        }
        const Piece& piece = pieces_[static_cast<std::size_t>(id)];
        if (is_special(static_cast<std::uint32_t>(id))) text += ' ';
        std::string_view rest = piece.text;
        while (!rest.empty()) {
            const std::size_t at = std::min(rest.find(space_symbol), rest.size());
            text += rest.substr(0, at);
            rest.remove_prefix(at);
            if (rest.empty()) break;
            text += ' ';
            rest.remove_prefix(space_symbol.size());
        }
    }
    return std::string(without_surrounding_space(text));
}

Ok check_tokenizer_hash(const std::string& path,
                        const Digest& hash,
                        const std::optional<Digest>& expected) {
    if (!expected || hash == *expected) return {};
    return make_error(ErrorKind::conflict,
                      "the tokenizer {} has the hash {}…, and the run wants {}…: ids would mean "
                      "other words here; take the file from the run's host, or leave it to dedloc "
                      "to fetch or make it",
                      path,
                      hash.short_hex(),
                      expected->short_hex());
}

Result<Bytes> with_recipe(ByteView model, const TokenizerRecipe& recipe) {
    DEDLOC_TRY_VOID(Tokenizer::parse(model));
    Bytes file = to_bytes(model);
    const OnlyOurs ours{OurMessage{to_string(recipe)}};
    base::append(file, wire::encode(ours));
    return file;
}

}  // namespace dedloc::text
