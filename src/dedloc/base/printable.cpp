#include "dedloc/base/printable.h"

#include <array>

#include "dedloc/base/columns.h"

namespace dedloc::base {
namespace {

bool is_harmless(char32_t code) {
    if (code < 0x20 || (code >= 0x7f && code <= 0x9f)) return false;  // C0, DEL, C1
    // Line and paragraph separators, and what turns the direction (Unicode Annex 9).
    const bool turns = code == 0x61c || code == 0x200e || code == 0x200f ||
                       (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
    return !turns;
}

// Not seen, or for the drawing of others: format characters, selectors of variants, the hyphen that
// is seen at a line's end only. Joiners stay where letters are written together (Indic, Arabic).
bool draws_nothing(char32_t code) {
    return code == 0xad || (code >= 0x600 && code <= 0x605) || code == 0x6dd || code == 0x70f ||
           code == 0x8e2 || code == 0x180e || code == 0x200b ||
           (code >= 0x2060 && code <= 0x206f) || (code >= 0xfe00 && code <= 0xfe0f) ||
           code == 0xfeff || (code >= 0xfff9 && code <= 0xfffb) || code >= 0xe0000;
}

bool is_joiner(char32_t code) { return code == 0x200c || code == 0x200d; }

// The width of one is a font's own.
bool is_private(char32_t code) { return (code >= 0xe000 && code <= 0xf8ff) || code >= 0xf0000; }

template <typename MayStay>
std::string filtered(std::string_view text, std::size_t bytes_max, MayStay may_stay) {
    std::string out;
    while (!text.empty()) {
        const Letter letter = first_letter(text);
        const bool is_space = letter.code >= '\t' && letter.code <= '\r';
        std::string_view shown = text.substr(0, letter.bytes);
        if (!may_stay(letter.code)) shown = is_space ? " " : "?";
        if (out.size() + shown.size() > bytes_max) break;
        out += shown;
        text.remove_prefix(letter.bytes);
    }
    return out;
}

}  // namespace

Letter first_letter(std::string_view text) {
    const auto byte = [text](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    constexpr Letter none{0, 1};
    if (byte(0) < 0x80) return {byte(0), 1};
    const std::size_t bytes = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
    if (byte(0) < 0xc2 || byte(0) > 0xf4 || bytes > text.size()) return none;
    char32_t code = byte(0) & (0x7fu >> bytes);
    for (std::size_t i = 1; i < bytes; ++i) {
        if ((byte(i) & 0xc0u) != 0x80) return none;
        code = code << 6 | (byte(i) & 0x3fu);
    }
    constexpr std::array<char32_t, 3> smallest = {0x80, 0x800, 0x10000};
    const bool surrogate = code >= 0xd800 && code <= 0xdfff;
    if (code < smallest[bytes - 2] || code > 0x10ffff || surrogate) return none;
    return {code, bytes};
}

std::string printable(std::string_view text, std::size_t bytes_max) {
    return filtered(text, bytes_max, is_harmless);
}

std::string printable_lines(std::string_view text) {
    return filtered(text, std::string_view::npos, [](char32_t code) {
        return code == '\n' || is_harmless(code);
    });
}

std::string printable_columns(std::string_view text, std::size_t bytes_max) {
    std::string out;
    std::size_t marks = letter_marks_max;  // none without a letter before it
    std::size_t before = 0;                // columns of the letter before
    while (!text.empty()) {
        const Letter letter = first_letter(text);
        std::string_view shown = text.substr(0, letter.bytes);
        text.remove_prefix(letter.bytes);
        if (is_private(letter.code) || !is_harmless(letter.code))
            shown = letter.code >= '\t' && letter.code <= '\r' ? " " : "?";
        else if (draws_nothing(letter.code) || (is_joiner(letter.code) && before != 1))
            continue;
        else if (letter.code == 0xa0)
            shown = " ";
        const std::size_t wide = shown.size() == 1 ? 1 : letter_columns(letter.code);
        if (wide == 0 && marks++ >= letter_marks_max) continue;
        if (out.size() + shown.size() > bytes_max) break;
        out += shown;
        if (wide == 0) continue;
        before = wide;
        marks = 0;
    }
    return out;
}

bool is_printable(std::string_view text) { return printable(text) == text; }

}  // namespace dedloc::base
