#include "dedloc/text/sentences.h"

#include <algorithm>
#include <array>

#include "dedloc/text/utf8.h"

namespace dedloc::text {

namespace {

constexpr std::string_view white_space = " \t\n\v\f\r";

// Sorted; lower case, without the last full stop.
constexpr std::array<std::string_view, 36> abbreviations{
    "al",  "brig", "c",   "ca", "capt", "cf",  "ch",   "cmdr", "co",  "col", "corp", "dr",
    "e.g", "ed",   "eds", "eq", "esq",  "fig", "figs", "gen",  "gov", "hon", "i.e",  "inc",
    "jr",  "lt",   "ltd", "mr", "mrs",  "ms",  "prof", "rev",  "sgt", "sr",  "st",   "vs"};

bool is_space(char letter) {
    return letter == ' ' || (letter >= '\t' && letter <= '\r');  // white_space
}

bool is_letter(char letter) {
    return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z');
}

enum class Mark { none, stop, strong, always };

Mark mark_of(char32_t code) {
    switch (code) {
        case U'.':
            return Mark::stop;
        case U'!':
        case U'?':
        case U'\u2026':  // …
        case U'\u061F':  // Arabic question mark
        case U'\u06D4':  // Arabic full stop
            return Mark::strong;
        case U'\u0964':  // danda
        case U'\u0965':  // double danda
        case U'\u3002':
        case U'\uFF01':
        case U'\uFF1F':
            return Mark::always;
        default:
            return Mark::none;
    }
}

bool closes(char32_t code) {
    constexpr std::u32string_view closing = U"\"')]}\u201D\u2019\u00BB\u300D\u300F\u203A";
    return closing.find(code) != std::u32string_view::npos;
}

// Is the full stop at `at` the end of an abbreviation or of an initial?
bool abbreviates(std::string_view text, std::size_t at) {
    std::size_t begin = at;
    while (begin > 0 && (is_letter(text[begin - 1]) || text[begin - 1] == '.')) --begin;
    const std::string_view word = text.substr(begin, at - begin);
    if (word.empty()) return false;
    const bool capital = word.back() >= 'A' && word.back() <= 'Z';
    const bool alone = word.size() == 1 || word[word.size() - 2] == '.';
    // "I" ends sentences far more often than it is an initial.
    if (capital && alone && word != "I") return true;
    std::string lower(word);
    for (char& letter : lower)
        if (letter >= 'A' && letter <= 'Z') letter = static_cast<char>(letter - 'A' + 'a');
    return std::binary_search(abbreviations.begin(), abbreviations.end(), lower);
}

// Behind closing marks and further terminators ("?!", "...").
std::size_t skip_closing(std::string_view text, std::size_t at) {
    while (at < text.size()) {
        const Character next = first_character(text.substr(at));
        if (next.bytes == 0 || (!closes(next.code) && mark_of(next.code) == Mark::none)) break;
        at += next.bytes;
    }
    return at;
}

bool small_letter_follows(std::string_view text, std::size_t at) {
    while (at < text.size() && is_space(text[at])) ++at;
    while (at < text.size() && closes(static_cast<unsigned char>(text[at]))) ++at;
    return at < text.size() && text[at] >= 'a' && text[at] <= 'z';
}

void append_sentence(std::vector<std::string>& out, std::string_view sentence) {
    sentence = without_surrounding_space(sentence);
    while (!sentence.empty()) {
        std::size_t end = sentence.size();
        if (end > sentence_bytes_max) {
            end = sentence.find_last_of(white_space, sentence_bytes_max);
            if (end == std::string_view::npos || end < sentence_bytes_max / 2)
                end = character_boundary(sentence, sentence_bytes_max);
        }
        std::string piece(without_surrounding_space(sentence.substr(0, end)));
        std::replace_if(piece.begin(), piece.end(), is_space, ' ');
        if (!piece.empty()) out.push_back(std::move(piece));
        sentence = without_surrounding_space(sentence.substr(end));
    }
}

}  // namespace

std::string_view without_surrounding_space(std::string_view text) {
    const std::size_t begin = text.find_first_not_of(white_space);
    if (begin == std::string_view::npos) return {};
    return text.substr(begin, text.find_last_not_of(white_space) - begin + 1);
}

std::size_t sentence_end(std::string_view text) {
    std::size_t at = 0;
    const auto surely_no_mark = [](char letter) {
        return static_cast<unsigned char>(letter) < 0x80 && letter != '.' && letter != '!' &&
               letter != '?';
    };
    while (true) {
        while (at < text.size() && surely_no_mark(text[at])) ++at;
        if (at == text.size()) break;
        const Character letter = first_character(text.substr(at));
        const Mark mark = letter.bytes == 0 ? Mark::none : mark_of(letter.code);
        const std::size_t begin = at;
        at += std::max<std::size_t>(letter.bytes, 1);
        if (mark == Mark::none) continue;
        at = skip_closing(text, at);
        if (at == text.size() || mark == Mark::always) return at;
        if (!is_space(text[at]) || small_letter_follows(text, at)) continue;
        if (mark == Mark::stop && abbreviates(text, begin)) continue;
        return at;
    }
    return text.size();
}

std::vector<std::string_view> lines_of(std::string_view text) {
    std::vector<std::string_view> lines;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        const std::string_view line = without_surrounding_space(text.substr(0, end));
        if (!line.empty()) lines.push_back(line);
        text.remove_prefix(std::min(end + 1, text.size()));
    }
    return lines;
}

std::vector<std::string_view> paragraphs_of(std::string_view text) {
    std::vector<std::string_view> paragraphs;
    std::size_t begin = 0;
    std::size_t at = 0;
    const auto close = [&](std::size_t end) {
        const auto paragraph = without_surrounding_space(text.substr(begin, end - begin));
        if (!paragraph.empty()) paragraphs.push_back(paragraph);
    };
    while (at < text.size()) {
        const std::size_t end = std::min(text.find('\n', at), text.size());
        if (without_surrounding_space(text.substr(at, end - at)).empty()) {
            close(at);
            begin = std::min(end + 1, text.size());
        }
        at = end + 1;
    }
    close(text.size());
    return paragraphs;
}

std::vector<std::string> sentences_of(std::string_view text, SentenceRule rule) {
    std::vector<std::string> sentences;
    if (rule == SentenceRule::line) {
        for (const std::string_view line : lines_of(text)) append_sentence(sentences, line);
        return sentences;
    }
    for (std::string_view paragraph : paragraphs_of(text)) {
        while (!paragraph.empty()) {
            const std::size_t end = sentence_end(paragraph);
            append_sentence(sentences, paragraph.substr(0, end));
            paragraph.remove_prefix(end);
        }
    }
    return sentences;
}

}  // namespace dedloc::text
