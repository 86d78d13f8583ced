// How a tokenizer is made, as one line of a run file or of a command says it:
//
//   kind=byte_bpe&vocabulary=8192
//   vocabulary=4096&normalization=nmt_nfkc_cf&rules=none&split_digits=false&coverage=0.9995
//
// kind           unigram       SentencePiece's (the others are its options)
//                byte_bpe      byte-pair encoding of bytes, for language models: no text is lost
// normalization  identity      nothing
//                nmt_nfkc      SentencePiece's default: Unicode NFKC, control characters and odd
//                              white space cleaned up
//                nmt_nfkc_cf   that, and case folded (an uncased model)
// rules          none
//                bengali       sahajBERT's: after the normalization U+09E4, |, U+09F7 become the
//                              danda U+0964, U+09E5 the double danda U+0965, and a colon right
//                              after a Bengali letter the visarga U+0983. sahajBERT also folds case
//                              and splits digits: rules=bengali&normalization=nmt_nfkc_cf&
//                              split_digits=true&vocabulary=32000
// coverage       characters rarer than the rest of this fraction become <unk>
//
// Thread: any; pure. Errors: bad_input.

#pragma once
#include <cstdint>
#include <string>
#include <string_view>

#include "dedloc/base/result.h"

namespace dedloc::text {

inline constexpr std::uint32_t vocabulary_min = 32;
inline constexpr std::uint32_t byte_vocabulary_min = 257;
inline constexpr std::uint32_t vocabulary_max = 1'000'000;

enum class TokenizerForm { unigram, byte_bpe };
enum class Normalization { identity, nmt_nfkc, nmt_nfkc_cf };
enum class ReplacementRules { none, bengali };

struct TokenizerRecipe {
    TokenizerForm kind = TokenizerForm::unigram;
    std::uint32_t vocabulary = 30000;  // pieces, the five special ones included
    Normalization normalization = Normalization::nmt_nfkc_cf;
    ReplacementRules rules = ReplacementRules::none;
    bool split_digits = false;
    double coverage = 0.9995;
    friend bool operator==(const TokenizerRecipe&, const TokenizerRecipe&) = default;
};

// A key that is not named keeps its default.
Result<TokenizerRecipe> parse_recipe(std::string_view text);
// Everything, in order.
std::string to_string(const TokenizerRecipe& recipe);
std::string_view to_string(Normalization normalization);

}  // namespace dedloc::text
