#include "dedloc/text/recipe.h"

#include "dedloc/text/names.h"

namespace dedloc::text {

namespace {

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
    } else if (name == "normalization") {
        DEDLOC_TRY(recipe.normalization, by_name(normalizations, value, name));
    } else if (name == "rules") {
        DEDLOC_TRY(recipe.rules, by_name(all_rules, value, "set of rules"));
    } else if (name == "split_digits") {
        DEDLOC_TRY(recipe.split_digits, by_name(answers, value, "answer to split_digits"));
    } else if (name == "coverage") {
        DEDLOC_TRY(recipe.coverage, parse_number(name, value, 0.5, 1));
    } else {
        return make_error(ErrorKind::bad_input,
                          "a tokenizer takes vocabulary, normalization, rules, split_digits and "
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
    return recipe;
}

std::string to_string(const TokenizerRecipe& recipe) {
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
