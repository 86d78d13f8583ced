#include "dedloc/images/emoji_names.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <set>

#include "dedloc/base/text_lines.h"

namespace dedloc::images {
namespace {

constexpr char32_t variation_selector = 0xfe0f;
constexpr std::array<std::string_view, 5> tones = {
    "light", "medium-light", "medium", "medium-dark", "dark"};

// One line of emoji-test.txt: "1F468 1F3FB ; fully-qualified # …". Empty: another status.
Result<std::vector<char32_t>> code_points_of(std::string_view line) {
    std::vector<char32_t> points;
    const std::size_t semicolon = line.find(';');
    if (semicolon == std::string_view::npos)
        return make_error(ErrorKind::bad_input, "'{}' is no line of emoji-test.txt", line);
    if (!line.substr(semicolon).starts_with("; fully-qualified")) return points;
    for (std::size_t at = 0; at < semicolon;) {
        const std::size_t end = std::min(line.find(' ', at), semicolon);
        std::uint32_t value = 0;
        const auto read = std::from_chars(line.data() + at, line.data() + end, value, 16);
        if (end > at && (read.ec != std::errc() || value > 0x10ffff))
            return make_error(ErrorKind::bad_input, "'{}' is no line of emoji-test.txt", line);
        if (end > at) points.push_back(value);
        at = end + 1;
    }
    return points;
}

void append_utf8(std::string& out, char32_t c) {
    const auto put = [&](char32_t byte) { out.push_back(static_cast<char>(byte)); };
    if (c < 0x80) {
        put(c);
    } else if (c < 0x800) {
        put(0xc0 | c >> 6);
        put(0x80 | (c & 63));
    } else if (c < 0x10000) {
        put(0xe0 | c >> 12);
        put(0x80 | (c >> 6 & 63));
        put(0x80 | (c & 63));
    } else {
        put(0xf0 | c >> 18);
        put(0x80 | (c >> 12 & 63));
        put(0x80 | (c >> 6 & 63));
        put(0x80 | (c & 63));
    }
}

std::string unescaped(std::string text) {
    constexpr std::pair<std::string_view, std::string_view> entities[] = {
        {"&lt;", "<"}, {"&gt;", ">"}, {"&quot;", "\""}, {"&apos;", "'"}, {"&amp;", "&"}};
    for (const auto& [entity, character] : entities)
        for (std::size_t at = 0; (at = text.find(entity, at)) != std::string::npos; ++at)
            text.replace(at, entity.size(), character);
    return text;
}

// "woman: dark skin tone, red hair" to "woman: red hair" and "dark".
void part_tone(const std::string& name, std::string& figure, std::string& tone) {
    figure = name;
    tone.clear();
    const std::size_t colon = name.find(": ");
    if (colon == std::string::npos) return;
    std::string rest;
    std::vector<std::string> found;
    for (std::size_t at = colon + 2; at <= name.size();) {
        const std::size_t end = std::min(name.find(", ", at), name.size());
        const std::string part = name.substr(at, end - at);
        const bool is_tone = std::ranges::any_of(
            tones, [&](std::string_view one) { return part == fmt::format("{} skin tone", one); });
        if (is_tone)
            found.push_back(part.substr(0, part.find(" skin")));
        else
            rest += (rest.empty() ? ": " : ", ") + part;
        at = end + 2;
    }
    if (found.size() != 1) return;
    figure = name.substr(0, colon) + rest;
    tone = found.front();
}

void hold_out(std::vector<Emoji>& emoji) {
    std::map<std::string, std::set<std::string>> tones_of;
    for (const Emoji& one : emoji)
        if (!one.tone.empty()) tones_of[one.figure].insert(one.tone);
    std::map<std::string, std::string_view> held;
    std::size_t number = 0;
    for (const auto& [figure, found] : tones_of) {
        if (found.size() != tones.size()) continue;
        if (number % 2 == 0) held[figure] = tones[number / 2 % tones.size()];
        ++number;
    }
    for (Emoji& one : emoji) {
        const auto found = held.find(one.figure);
        one.held_out = found != held.end() && found->second == one.tone;
    }
}

}  // namespace

std::string utf8_of(const std::vector<char32_t>& code_points, bool with_variation_selectors) {
    std::string text;
    for (const char32_t c : code_points)
        if (with_variation_selectors || c != variation_selector) append_utf8(text, c);
    return text;
}

Result<std::vector<Emoji>> parse_emoji_list(std::string_view text) {
    std::vector<Emoji> emoji;
    while (!text.empty()) {
        const std::string_view line = base::take_line(text);
        if (line.empty() || line.front() == '#') continue;
        DEDLOC_TRY(auto points, code_points_of(line));
        if (!points.empty()) emoji.push_back({.code_points = std::move(points)});
    }
    return emoji;
}

Ok add_emoji_names(std::string_view annotations, EmojiNames& names) {
    constexpr std::string_view begin = "<annotation cp=\"";
    constexpr std::string_view middle = "\" type=\"tts\">";
    if (annotations.find("<ldml>") == std::string_view::npos)
        return make_error(ErrorKind::bad_input, "this is no file of CLDR's annotations");
    for (std::size_t at = 0; (at = annotations.find(begin, at)) != std::string_view::npos;) {
        at += begin.size();
        const std::size_t quote = annotations.find('"', at);
        if (quote == std::string_view::npos) break;
        const std::string emoji = unescaped(std::string(annotations.substr(at, quote - at)));
        if (!annotations.substr(quote).starts_with(middle)) continue;
        const std::size_t from = quote + middle.size();
        const std::size_t end = annotations.find("</annotation>", from);
        if (end == std::string_view::npos) break;
        names[emoji] = unescaped(std::string(annotations.substr(from, end - from)));
        at = end;
    }
    return {};
}

void name_emoji(const EmojiNames& names, const EmojiNames& english, std::vector<Emoji>& emoji) {
    std::vector<Emoji> named;
    for (Emoji& one : emoji) {
        const std::string key = utf8_of(one.code_points, false);
        const auto caption = names.find(key);
        if (caption == names.end()) continue;
        one.caption = caption->second;
        const auto in_english = english.find(key);
        part_tone(
            in_english == english.end() ? one.caption : in_english->second, one.figure, one.tone);
        named.push_back(std::move(one));
    }
    emoji = std::move(named);
    hold_out(emoji);
}

}  // namespace dedloc::images
