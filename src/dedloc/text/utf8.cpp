#include "dedloc/text/utf8.h"

#include <cstring>

namespace dedloc::text {

Character first_character(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned first = byte(0);
    if (first < 0x80) return {first, 1};
    const std::size_t count = character_bytes(text[0]);
    if (first < 0xC2 || first > 0xF4 || count > text.size()) return {};
    char32_t code = first & (0x7Fu >> count);
    for (std::size_t i = 1; i < count; ++i) {
        if (!continues_character(text[i])) return {};
        code = (code << 6) | (byte(i) & 0x3Fu);
    }
    const bool overlong = (count == 3 && code < 0x800) || (count == 4 && code < 0x10000);
    const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
    if (overlong || surrogate || code > 0x10FFFF) return {};
    return {code, count};
}

std::optional<std::size_t> first_invalid(std::string_view text) {
    std::size_t at = 0;
    while (at < text.size()) {
        // Eight ASCII bytes at once.
        std::uint64_t word = 0;
        if (text.size() - at >= sizeof word) {
            std::memcpy(&word, text.data() + at, sizeof word);
            if ((word & 0x8080808080808080u) == 0) {
                at += sizeof word;
                continue;
            }
        }
        const std::size_t bytes = first_character(text.substr(at)).bytes;
        if (bytes == 0) return at;
        at += bytes;
    }
    return std::nullopt;
}

std::size_t character_boundary(std::string_view text, std::size_t position) {
    if (position >= text.size()) return text.size();
    while (position > 0 && continues_character(text[position])) --position;
    return position;
}

}  // namespace dedloc::text
