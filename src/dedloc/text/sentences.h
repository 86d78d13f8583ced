// Sentences of running text, by punctuation.
//
// A sentence ends after . ! ? … and their Arabic and full-width kin, together with the quotation
// marks and brackets that close after them, where white space follows and the next letter is not a
// small Latin one; after 。！？ and the Indic । ॥ always. A full stop after a known abbreviation
// ("Mr.", "e.g.") or a single capital ("J. S. Bach") ends nothing. A blank line ends a sentence.
//
// In the place of nltk's punkt, which the paper's scripts use: no trained model, the same on every
// machine. Cost: some 70 MB/s. Thread: any; pure.

#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace dedloc::text {

// Longer sentences are cut at a space (text without punctuation; bounds one call of the tokenizer).
inline constexpr std::size_t sentence_bytes_max = 4096;

enum class SentenceRule {
    line,         // every line that is not blank is one
    punctuation,  // as above
};

// In order, without surrounding white space, line breaks inside become spaces; none is empty.
std::vector<std::string> sentences_of(std::string_view text, SentenceRule rule);

// Pieces of text between blank lines, without them. None is empty.
std::vector<std::string_view> paragraphs_of(std::string_view text);
// Lines that are not blank, without their ends.
std::vector<std::string_view> lines_of(std::string_view text);

std::string_view without_surrounding_space(std::string_view text);

// How many bytes from the beginning of `text` the first sentence has (its closing marks included);
// text.size() when no end is found.
std::size_t sentence_end(std::string_view text);

}  // namespace dedloc::text
