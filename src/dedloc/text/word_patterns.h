// How text is parted into words before byte-pair encoding: the patterns of published models, which
// the `tokenizers` package runs as regular expressions, as code.
//
//   gpt2    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//   llama3  (?i:'s|…)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|
//           \s+(?!\S)|\s+
//   qwen2   the same, every number by itself
//
// The pieces are the text again, one behind the other. Cost: one look at each character.
// Thread: any; pure. Text must be UTF-8.

#pragma once
#include <optional>
#include <string_view>
#include <vector>

namespace dedloc::text {

enum class WordPattern { gpt2, llama3, qwen2 };

// By its regular expression; none: not one of those.
std::optional<WordPattern> pattern_of(std::string_view regular_expression);

void split_words(std::string_view text, WordPattern pattern, std::vector<std::string_view>& words);

// Every number by itself, what is between them whole.
void split_digits(std::string_view text, std::vector<std::string_view>& pieces);

}  // namespace dedloc::text
