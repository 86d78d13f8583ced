#include "dedloc/text/word_patterns.h"

#include <algorithm>
#include <array>
#include <utility>

#include "dedloc/text/unicode_classes.h"
#include "dedloc/text/utf8.h"

namespace dedloc::text {

namespace {

constexpr std::array<std::pair<WordPattern, std::string_view>, 3> expressions{
    {{WordPattern::gpt2,
      R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"},
     {WordPattern::llama3,
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3})"
      R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"},
     {WordPattern::qwen2,
      R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N})"
      R"(| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)"}}};

constexpr std::size_t numbers_max_llama3 = 3;  // of one piece

enum class Class { letter, number, space, other, end };

// A place in the text, with the class of the character there.
struct Cursor {
    std::string_view text;
    std::size_t at = 0;
    char32_t code = 0;
    std::size_t bytes = 0;
    Class kind = Class::end;

    Cursor(std::string_view whole, std::size_t place) : text(whole), at(place) { look(); }
    void look() {
        if (at >= text.size()) {
            kind = Class::end;
            code = 0;
            bytes = 0;
            return;
        }
        const Character character = first_character(text.substr(at));
        code = character.code;
        bytes = std::max<std::size_t>(character.bytes, 1);
        kind = is_letter(code)        ? Class::letter
               : is_number(code)      ? Class::number
               : is_white_space(code) ? Class::space
                                      : Class::other;
    }
    void next() {
        at += bytes;
        look();
    }
    bool is_line_end() const { return kind == Class::space && (code == '\r' || code == '\n'); }
    void skip(Class wanted) {
        while (kind == wanted) next();
    }
};

// Bytes of the contraction at the beginning of the text ("'ll"); 0: none.
std::size_t contraction(std::string_view text, bool any_case) {
    if (!text.starts_with('\'')) return 0;
    const auto letter = [&](std::size_t at) -> char {
        if (at >= text.size()) return '\0';
        const char found = text[at];
        return any_case && found >= 'A' && found <= 'Z' ? static_cast<char>(found + 32) : found;
    };
    const char first = letter(1);
    const char second = letter(2);
    if (first == 's' || first == 't' || first == 'm' || first == 'd') return 2;
    // The long s is an s whose case is folded.
    if (any_case && text.substr(1).starts_with("\u017F")) return 3;
    if ((first == 'r' || first == 'v') && second == 'e') return 3;
    return first == 'l' && second == 'l' ? 3 : 0;
}

// White space that begins at `begin`: where its piece ends. What follows takes the last of it.
std::size_t end_of_space(std::string_view text, std::size_t begin, bool ends_lines) {
    Cursor cursor(text, begin);
    std::size_t last = begin;  // where the last character of the run begins
    std::size_t line_end = 0;  // behind the last line end of the run
    while (cursor.kind == Class::space) {
        last = cursor.at;
        const bool is_line_end = cursor.is_line_end();
        cursor.next();
        if (is_line_end) line_end = cursor.at;
    }
    if (ends_lines && line_end > 0) return line_end;
    return cursor.kind == Class::end || last == begin ? cursor.at : last;
}

std::size_t end_of_gpt2_word(std::string_view text, std::size_t begin) {
    if (const std::size_t bytes = contraction(text.substr(begin), false)) return begin + bytes;
    Cursor cursor(text, begin);
    if (cursor.code == ' ') cursor.next();
    if (cursor.kind == Class::space || cursor.kind == Class::end)
        return end_of_space(text, begin, false);
    cursor.skip(cursor.kind);
    return cursor.at;
}

std::size_t end_of_llama_word(std::string_view text, std::size_t begin, std::size_t numbers_max) {
    if (const std::size_t bytes = contraction(text.substr(begin), true)) return begin + bytes;
    Cursor cursor(text, begin);
    const Cursor first = cursor;
    if (first.kind == Class::number) {
        for (std::size_t i = 0; i < numbers_max && cursor.kind == Class::number; ++i) cursor.next();
        return cursor.at;
    }
    if (first.kind != Class::letter && !first.is_line_end()) cursor.next();
    if (cursor.kind == Class::letter) {
        cursor.skip(Class::letter);
        return cursor.at;
    }
    cursor = first;
    if (cursor.code == ' ') cursor.next();
    if (cursor.kind == Class::other) {
        cursor.skip(Class::other);
        while (cursor.is_line_end()) cursor.next();
        return cursor.at;
    }
    return end_of_space(text, begin, true);
}

}  // namespace

std::optional<WordPattern> pattern_of(std::string_view regular_expression) {
    for (const auto& [pattern, expression] : expressions)
        if (expression == regular_expression) return pattern;
    return std::nullopt;
}

void split_words(std::string_view text, WordPattern pattern, std::vector<std::string_view>& words) {
    for (std::size_t begin = 0; begin < text.size();) {
        const std::size_t end =
            pattern == WordPattern::gpt2
                ? end_of_gpt2_word(text, begin)
                : end_of_llama_word(
                      text, begin, pattern == WordPattern::llama3 ? numbers_max_llama3 : 1);
        words.push_back(text.substr(begin, end - begin));
        begin = end;
    }
}

void split_digits(std::string_view text, std::vector<std::string_view>& pieces) {
    std::size_t begin = 0;
    for (Cursor cursor(text, 0); cursor.kind != Class::end;) {
        if (cursor.kind != Class::number) {
            cursor.next();
            continue;
        }
        if (cursor.at > begin) pieces.push_back(text.substr(begin, cursor.at - begin));
        begin = cursor.at;
        cursor.next();
        pieces.push_back(text.substr(begin, cursor.at - begin));
        begin = cursor.at;
    }
    if (begin < text.size()) pieces.push_back(text.substr(begin));
}

}  // namespace dedloc::text
