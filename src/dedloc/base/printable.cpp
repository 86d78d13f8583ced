#include "dedloc/base/printable.h"

#include <array>

namespace dedloc::base {
namespace {

struct Letter {
    char32_t code;  // 0, which is no printable one either: the byte belongs to no letter
    std::size_t bytes;
};

// The first letter of a text in UTF-8 (RFC 3629: the shortest form, no surrogates).
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

bool is_harmless(char32_t code) {
    if (code < 0x20 || (code >= 0x7f && code <= 0x9f)) return false;  // C0, DEL, C1
    // Line and paragraph separators, and what turns the direction (Unicode Annex 9).
    const bool turns = code == 0x61c || code == 0x200e || code == 0x200f ||
                       (code >= 0x2028 && code <= 0x202e) || (code >= 0x2066 && code <= 0x2069);
    return !turns;
}

// Latin, Greek, Cyrillic; no soft hyphen, no combining marks.
bool takes_one_column(char32_t code) {
    if (code < 0xa1) return is_harmless(code) && code != 0xa0;
    return code != 0xad && code <= 0x52f && (code < 0x300 || code > 0x36f) &&
           (code < 0x483 || code > 0x489);
}

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

std::string printable(std::string_view text, std::size_t bytes_max) {
    return filtered(text, bytes_max, is_harmless);
}

std::string printable_lines(std::string_view text) {
    return filtered(text, std::string_view::npos, [](char32_t code) {
        return code == '\n' || is_harmless(code);
    });
}

std::string printable_columns(std::string_view text, std::size_t bytes_max) {
    return filtered(text, bytes_max, takes_one_column);
}

bool is_printable(std::string_view text) { return printable(text) == text; }

}  // namespace dedloc::base
