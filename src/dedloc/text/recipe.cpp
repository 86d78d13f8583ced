#include "dedloc/text/recipe.h"

#include "dedloc/text/names.h"

namespace dedloc::text {

namespace {

constexpr std::array<Named<TokenizerForm>, 2> forms{
    {{"unigram", TokenizerForm::unigram}, {"byte_bpe", TokenizerForm::byte_bpe}}};
constexpr std::array<Named<Normalization>, 3> normalizations{
    {{"identity", Normalization::identity},
     {"nmt_nfkc", Normalization::nmt_nfkc},
     {"nmt_nfkc_cf", Normalization::nmt_nfkc_cf}}};
constexpr std::array<Named<ReplacementRules>, 2> all_rules{
    {{"none", ReplacementRules::none}, {"bengali", ReplacementRules::bengali}}};
constexpr std::array<Named<bool>, 2> answers{{{"false", false}, {"true", true}}};

Ok apply_option(TokenizerRecipe& recipe, std::string_view name, std::string_view value) {
    if (name == "vocabulary") {
        DEDLOC_TRY(const double size,
                   parse_number(name, value, vocabulary_min - 1, vocabulary_max));
        recipe.vocabulary = static_cast<std::uint32_t>(size);
    } else if (name == "kind") {
        DEDLOC_TRY(recipe.kind, by_name(forms, value, "kind of tokenizer"));
    } else if (name == "normalization") {
        DEDLOC_TRY(recipe.normalization, by_name(normalizations, value, name));
    } else if (name == "rules") {
        DEDLOC_TRY(recipe.rules, by_name(all_rules, value, "set of rules"));
    } else if (name == "split_digits") {
        DEDLOC_TRY(recipe.split_digits, by_name(answers, value, "answer to split_digits"));
    } else if (name == "coverage") {
        DEDLOC_TRY(recipe.coverage, parse_number(name, value, 0.5, 1));
    } else {
        return make_error(
            ErrorKind::bad_input,
            "a tokenizer takes kind, vocabulary, normalization, rules, split_digits and "
            "coverage; not '{}={}'",
            name,
            value);
    }
    return {};
}

}  // namespace

Result<TokenizerRecipe> parse_recipe(std::string_view text) {
    TokenizerRecipe recipe;
    const auto apply = [&](std::string_view name, std::string_view value) {
        return apply_option(recipe, name, value);
    };
    DEDLOC_TRY_VOID(for_each_option(text, apply));
    const TokenizerRecipe plain{.kind = recipe.kind, .vocabulary = recipe.vocabulary};
    if (recipe.kind == TokenizerForm::byte_bpe && !(recipe == plain))
        return make_error(ErrorKind::bad_input,
                          "a tokenizer of bytes (kind=byte_bpe) keeps every text as it is: of the "
                          "other options it takes vocabulary alone");
    if (recipe.kind == TokenizerForm::byte_bpe && recipe.vocabulary < byte_vocabulary_min)
        return make_error(ErrorKind::bad_input,
                          "a tokenizer of bytes has {} pieces at least, not {}: every byte, and "
                          "the end of a document",
                          byte_vocabulary_min,
                          recipe.vocabulary);
    return recipe;
}

std::string to_string(const TokenizerRecipe& recipe) {
    if (recipe.kind == TokenizerForm::byte_bpe)
        return fmt::format("kind=byte_bpe&vocabulary={}", recipe.vocabulary);
    return fmt::format("vocabulary={}&normalization={}&rules={}&split_digits={}&coverage={}",
                       recipe.vocabulary,
                       to_string(recipe.normalization),
                       name_of(all_rules, recipe.rules),
                       recipe.split_digits,
                       recipe.coverage);
}

std::string_view to_string(Normalization normalization) {
    return name_of(normalizations, normalization);
}

}  // namespace dedloc::text
