#include "dedloc/text/normalizer.h"

#include <algorithm>

#include "dedloc/text/utf8.h"

namespace dedloc::text {

namespace {

constexpr std::string_view replacement_character = "\xEF\xBF\xBD";  // U+FFFD

// A unit of the double array.
bool has_leaf(std::uint32_t unit) { return ((unit >> 8) & 1) != 0; }
std::uint32_t value_of(std::uint32_t unit) { return unit & 0x7FFFFFFF; }
std::uint32_t label_of(std::uint32_t unit) { return unit & 0x800000FF; }
std::uint32_t offset_of(std::uint32_t unit) { return (unit >> 10) << ((unit & 0x200) >> 6); }

// Each ends with a zero.
std::size_t longest_replacement(std::string_view replacements) {
    std::size_t longest = 0;
    while (!replacements.empty()) {
        const std::size_t bytes = std::min(replacements.find('\0'), replacements.size());
        longest = std::max(longest, bytes);
        replacements.remove_prefix(std::min(bytes + 1, replacements.size()));
    }
    return longest;
}

bool is_bengali(char32_t code) { return code >= 0x980 && code <= 0x9FF; }

}  // namespace

std::string bengali_rules(std::string_view text) {
    constexpr std::string_view danda = "\xE0\xA5\xA4";
    constexpr std::string_view double_danda = "\xE0\xA5\xA5";
    constexpr std::string_view visarga = "\xE0\xA6\x83";
    std::string out;
    out.reserve(text.size());
    bool after_bengali = false;
    while (!text.empty()) {
        const Character letter = first_character(text);
        const std::size_t bytes = std::max<std::size_t>(letter.bytes, 1);
        const char32_t code = letter.bytes == 0 ? 0 : letter.code;
        if (code == 0x9E4 || code == 0x9F7 || code == U'|')
            out += danda;
        else if (code == 0x9E5)
            out += double_danda;
        else if (code == U':' && after_bengali)
            out += visarga;
        else
            out += text.substr(0, bytes);
        // The rules run one after the other: a sign that became a danda is no letter any more.
        after_bengali = is_bengali(code) && code != 0x9E4 && code != 0x9E5 && code != 0x9F7;
        text.remove_prefix(bytes);
    }
    return out;
}

Result<Normalizer> Normalizer::make(ByteView map, const Options& options) {
    Normalizer normalizer;
    normalizer.options_ = options;
    if (!map.empty()) {
        const auto bad = [](std::string_view why) {
            return make_error(
                ErrorKind::bad_input, "the tokenizer's character map is damaged: {}", why);
        };
        if (map.size() > character_map_bytes_max) return bad("too large");
        base::ByteReader reader(map);
        DEDLOC_TRY(const std::uint32_t trie_bytes, reader.u32_le());
        if (trie_bytes % 4 != 0 || trie_bytes == 0 || trie_bytes > reader.remaining())
            return bad("its trie's size is wrong");
        normalizer.trie_.reserve(trie_bytes / 4);
        for (std::uint32_t i = 0; i < trie_bytes / 4; ++i) {
            DEDLOC_TRY(const std::uint32_t unit, reader.u32_le());
            normalizer.trie_.push_back(unit);
        }
        DEDLOC_TRY(const ByteView rest, reader.take(reader.remaining()));
        normalizer.replacements_ = as_text(rest);
        if (normalizer.replacements_.empty() || normalizer.replacements_.back() != '\0')
            return bad("its last replacement has no end");
        if (first_invalid(normalizer.replacements_)) return bad("a replacement is not UTF-8");
        if (longest_replacement(normalizer.replacements_) > replacement_bytes_max)
            return make_error(ErrorKind::bad_input,
                              "the tokenizer replaces letters by more than {} bytes; make one "
                              "with: dedloc tokenizer train",
                              replacement_bytes_max);
    }
    for (int letter = 0; letter < 128; ++letter) {
        // A rule may need more letters than this one; only the first step is looked at.
        bool plain = true;
        if (!normalizer.trie_.empty()) {
            const auto byte = static_cast<std::uint32_t>(letter);
            const std::uint32_t node = offset_of(normalizer.trie_[0]) ^ byte;
            plain = node >= normalizer.trie_.size() || label_of(normalizer.trie_[node]) != byte;
        }
        normalizer.ascii_is_plain_[letter] = plain;
    }
    return normalizer;
}

Normalizer::Match Normalizer::longest_match(std::string_view text) const {
    Match best;
    std::uint32_t node = offset_of(trie_[0]);
    for (std::size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        node ^= byte;
        // The file may come from anybody: every step is checked.
        if (node >= trie_.size() || label_of(trie_[node]) != byte) break;
        const bool leaf = has_leaf(trie_[node]);
        node ^= offset_of(trie_[node]);
        if (!leaf) continue;
        if (node >= trie_.size()) break;
        const std::size_t begin = value_of(trie_[node]);
        if (begin >= replacements_.size()) break;
        best = {i + 1, std::string_view(replacements_.c_str() + begin)};
    }
    return best;
}

void Normalizer::append_mapped(std::string_view text, std::string& out) const {
    std::size_t at = 0;
    while (at < text.size()) {
        const std::size_t begin = at;
        while (at < text.size() && static_cast<unsigned char>(text[at]) < 128 &&
               ascii_is_plain_[static_cast<unsigned char>(text[at])])
            ++at;
        out += text.substr(begin, at - begin);
        if (at == text.size()) return;
        const std::string_view rest = text.substr(at);
        const Match match = trie_.empty() ? Match{} : longest_match(rest);
        if (match.bytes > 0) {
            out += match.replacement;
            at += match.bytes;
            continue;
        }
        const std::size_t bytes = first_character(rest).bytes;
        out += bytes == 0 ? replacement_character : rest.substr(0, bytes);
        at += std::max<std::size_t>(bytes, 1);
    }
}

std::string Normalizer::replace(std::string_view text) const {
    std::string out;
    out.reserve(text.size() + text.size() / 4);
    append_mapped(text, out);
    return options_.rules == ReplacementRules::bengali ? bengali_rules(out) : out;
}

std::string Normalizer::normalize(std::string_view text) const {
    const std::string replaced = replace(text);
    std::string_view rest = replaced;
    const std::string_view space = options_.escape_spaces ? space_symbol : " ";
    if (options_.remove_extra_spaces) {
        rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
        const std::size_t last = rest.find_last_not_of(' ');
        rest = rest.substr(0, last == std::string_view::npos ? 0 : last + 1);
    }
    std::string out;
    if (rest.empty()) return out;
    out.reserve(rest.size() + rest.size() / 2);
    if (options_.dummy_prefix) out += space;
    bool after_space = options_.remove_extra_spaces;
    for (const char byte : rest) {
        if (byte != ' ') {
            out += byte;
            after_space = false;
            continue;
        }
        if (!after_space) out += space;
        after_space = options_.remove_extra_spaces;
    }
    // A literal U+2581 at the end counts as white space, too.
    if (options_.remove_extra_spaces)
        while (out.ends_with(space)) out.resize(out.size() - space.size());
    return out;
}

}  // namespace dedloc::text
